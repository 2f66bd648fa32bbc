"""no_host_syncs on CUDA: judges every operator by the operator table before it runs."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

from debubble.clock.action import SYNC, Action, copy, kernel
from debubble.contract.backward_pass import UNDER_WAY, note_forward
from debubble.contract.host_syncs import HOST_SYNC, refuse
from debubble.contract.source_line import source_line
from debubble.private.torch import OpOverload, TorchDispatchMode, overload_name, to_copy
from debubble.rules.composition import name_of, parts_of
from debubble.rules.copies import download, nbytes_of, upload
from debubble.rules.operators import effects_of
from debubble.rules.refusal import refusal

aten = torch.ops.aten
NUMBERS_FOR_TENSORS = {"Scalar", "Scalar_out"}
"""Overloads that are not run as their parts, which would get a number where they take a tensor;
none of them waits."""

PRINTING = {torch.Tensor.__repr__, torch.Tensor.__format__, torch.Tensor.__str__}


class SyncWatch:
    """A context manager that raises HostSyncError for host waits of this thread that the region
    forbids. It enters two modes: one for operators, one for calls that PyTorch hides from a mode of
    operators."""

    def __init__(self) -> None:
        self._modes = (_WatchedOperators(), _Hidden())

    def __enter__(self) -> SyncWatch:
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*exception)


class _WatchedOperators(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if HOST_SYNC.is_forbidden():
            parts = parts_of(func)
            if parts is not None and overload_name(func) not in NUMBERS_FOR_TENSORS:
                with self:
                    return parts(*args, **kwargs)
            if not UNDER_WAY:
                note_forward(source_line())
            name = name_of(func)
            reason = refusal(name, actions_of(func, name, args, kwargs))
            if reason:
                refuse(reason)
        return func(*args, **kwargs)


class _Hidden(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if HOST_SYNC.is_forbidden():
            if func in PRINTING and args[0].is_cuda:
                refuse("printing a tensor makes the host wait for the device")
            if func is torch.tensor and isinstance(args[0], (list, tuple)) and _on_cuda(args[0]):
                refuse("making a tensor from a list of tensors reads each of them")
        return func(*args, **(kwargs or {}))


def actions_of(func: OpOverload, name: str, args: tuple, kwargs: dict) -> list[Action]:
    """Returns the copies, kernels and waits of an operator that is about to run on CUDA tensors; an
    empty list if it has none."""
    if func is aten.copy_.default:
        non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        return _copy(args[0], args[1], non_blocking)
    if func is to_copy.default:
        return _to(args[0], kwargs)
    if func is aten.lift_fresh.default:
        made = args[0]
        return (
            [copy("h2d_pageable", nbytes_of(made)), SYNC] if made.is_cuda and made.numel() else []
        )
    if not any(_on_cuda(value) for value in (*args, *kwargs.values())):
        return []
    return effects_of(name, args, kwargs).actions(kernel(name))


def _copy(target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> list[Action]:
    if target.is_cuda and not source.is_cuda:
        return upload(target, source, non_blocking)
    if source.is_cuda and not target.is_cuda:
        return download(target, source, non_blocking)
    return []


def _to(source: torch.Tensor, kwargs: dict) -> list[Action]:
    """Returns the copies, kernels and waits of `source.to(...)` between host and device, which
    makes its own target; a target on the host is pinned if the copy is non-blocking."""
    place = torch.device(kwargs.get("device") or source.device)
    non_blocking = bool(kwargs.get("non_blocking"))
    if source.is_cuda == (place.type == "cuda"):
        return []
    dtype = kwargs.get("dtype") or source.dtype
    target = torch.empty_like(source, dtype=dtype, device="meta")
    if place.type == "cuda":
        return upload(target, source, non_blocking)
    return [SYNC] if not non_blocking and source.numel() else []


def _on_cuda(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_cuda
    return isinstance(value, (list, tuple)) and any(_on_cuda(item) for item in value)
