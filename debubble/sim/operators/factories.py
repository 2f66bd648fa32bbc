"""Making tensors on sim: what PyTorch's factories, and its first copy to a device, call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from debubble.clock.action import kernel
from debubble.rules.composition import has_kernel
from debubble.rules.copies import nbytes_of
from debubble.rules.operators import TAKEN_APART_ELSEWHERE

from ..memory.blocks import IN_USE, NO_MEMORY, out_of_memory
from ..tensor import SimTensor
from .differences import half_fft
from .differences.other_means import LEAVES_OUT
from .dispatch import Dispatcher
from .execution import Operation, execute
from .features import autocast, sparse
from .in_one_piece import attention
from .in_one_piece.gradient import ANSWERED_BY_THE_HOST, differentiable
from .in_one_piece.linear import OPERATOR as LINEAR
from .in_one_piece.linear import Linear, linear

IMPLICIT = torch.DispatchKey.CompositeImplicitAutograd
_library: torch.library.Library | None = None
_fallback: torch.library.Library | None = None


class Factories:
    """The operators that make tensors on sim without a sim tensor among their arguments: no tensor
    class sees such calls."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher, self.device = dispatcher, dispatcher.device

    @property
    def by_name(self) -> dict[str, Callable[..., SimTensor]]:
        """The methods that make a tensor, by the name of their operator overload."""
        return {
            "empty.memory_format": self.empty,
            "empty_strided": self.empty_strided,
            "arange": self.arange,
            "arange.start": self.arange,
            "arange.start_step": self.arange,
        }

    def empty(self, size: Any, *, dtype=None, memory_format=None, **options: Any) -> SimTensor:
        make = partial(torch.empty, size, dtype=dtype, memory_format=memory_format)
        return self._without_kernel(make, size, dtype)

    def empty_strided(self, size: Any, stride: Any, *, dtype=None, **options: Any) -> SimTensor:
        make = partial(torch.empty_strided, size, stride, dtype=dtype)
        return self._without_kernel(make, size, dtype)

    def arange(self, *bounds: Any, dtype=None, **options: Any) -> SimTensor:
        """Runs `torch.arange` as one kernel. PyTorch's own way for other devices would resize an
        empty tensor."""
        data = torch.arange(*bounds, dtype=dtype)
        actions = [kernel("arange", nbytes_of(data))] if data.numel() else []
        operation = Operation(data.clone, lambda _: actions, makes_memory=True)
        return self.device.made(SimTensor(execute(self.device, operation)))

    def copy_from(
        self, source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False
    ) -> torch.Tensor:
        """Copies a tensor to the device, for code in C++ such as `torch.tensor(values,
        device=...)`, which makes a CPU tensor first."""
        self.device.host_works(self.device.cost.op_us)
        self.dispatcher.copies.copy(target, source, non_blocking)
        return target

    def _without_kernel(
        self, make: Callable[[], torch.Tensor], size: Sequence[int], dtype: torch.dtype | None
    ) -> SimTensor:
        self.device.host_works(self.device.cost.op_us)
        if IN_USE.limit is not None:
            IN_USE.expect_room(_nbytes(size, dtype))
        try:
            data = make()
        except RuntimeError as error:
            if NO_MEMORY in str(error):
                raise out_of_memory(_nbytes(size, dtype)) from None
            raise
        return self.device.blank(data)


def _nbytes(size: Sequence[int], dtype: torch.dtype | None) -> int:
    return math.prod(size) * (dtype or torch.get_default_dtype()).itemsize


def install(dispatcher: Dispatcher) -> None:
    global _library, _fallback
    _library = torch.library.Library("aten", "IMPL")
    factories = Factories(dispatcher)
    copies = dict.fromkeys(("_copy_from", "_copy_from_and_resize"), factories.copy_from)
    for name, call in {**factories.by_name, **copies}.items():
        _library.impl(name, dispatcher.aside(call), "PrivateUse1")
    for name in (*TAKEN_APART_ELSEWHERE, *LEAVES_OUT, "_local_scalar_dense"):
        func = _overload(name)
        _library.impl(name, partial(_in_one_piece, dispatcher, func), "PrivateUse1")
        if name in LEAVES_OUT:
            run = partial(_in_one_piece, dispatcher, func)
            _library.impl(name, run, "AutogradPrivateUse1")
        if name in TAKEN_APART_ELSEWHERE and has_kernel(func, IMPLICIT):
            _library.impl(
                name,
                dispatcher.aside(partial(differentiable, dispatcher, func)),
                "AutogradPrivateUse1",
            )
    for name in ANSWERED_BY_THE_HOST:
        _library.impl(
            name,
            dispatcher.aside(partial(differentiable, dispatcher, _overload(name))),
            "AutogradPrivateUse1",
        )
    attention.install(dispatcher, _library)
    for key in ("PrivateUse1", "AutogradPrivateUse1"):
        for overload in ("Tensor", "IntList"):
            _library.impl(f"ctc_loss.{overload}", partial(_ctc_loss, overload), key)
    _library.impl("linear", dispatcher.aside(partial(linear, dispatcher)), "AutogradPrivateUse1")
    dispatcher.runs_by(LINEAR, Linear(dispatcher))
    _fallback = torch.library.Library("_", "IMPL")
    _fallback.fallback(lambda func, *args, **kwargs: dispatcher(func, args, kwargs), "PrivateUse1")
    for key, kind in WITHOUT_MEMORY.items():
        _fallback.fallback(partial(_refuse, kind), key)
    half_fft.install(_library)
    sparse.install(dispatcher, dispatcher.runs_by, _library, _fallback)
    autocast.install(_library, _fallback, dispatcher.aside)


def _ctc_loss(
    overload: str,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    *options: Any,
) -> torch.Tensor:
    """Computes `ctc_loss` with lengths on the host, as CUDA does: reads lengths on the device back.
    Like PyTorch, first reads one target, to find out if cuDNN could compute it, and again once the
    lengths are on the host."""
    if targets.numel():
        targets[(0,) * targets.dim()].item()
    if overload == "Tensor":
        lengths = input_lengths.tolist(), target_lengths.tolist()
        return _ctc_loss("IntList", log_probs, targets, *lengths, *options)
    whole = torch.ops.aten.ctc_loss.IntList
    return whole.decompose(log_probs, targets, input_lengths, target_lengths, *options)


WITHOUT_MEMORY = {
    "NestedTensorPrivateUse1": "nested",
    "SparseCsrPrivateUse1": "compressed sparse",
}
"""The kinds of tensors that sim refuses, by the dispatch key of their operators. PyTorch makes such
tensors for any device."""


def _refuse(kind: str, func: Any, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        f"sim has no {kind} tensors, which {func.name()} was called with: keep them on the CPU"
    )


def _in_one_piece(dispatcher: Dispatcher, func: Any, *args: Any, **kwargs: Any) -> Any:
    return dispatcher(func, args, kwargs)


def _overload(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")
