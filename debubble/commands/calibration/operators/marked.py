"""Attributes the kernels of a CUDA profile to the operators that launched them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from debubble.clock.configuration import configuration
from debubble.clock.shaped import Configuration, tensors_in
from debubble.private.torch import TorchDispatchMode, device_sleep
from debubble.rules.composition import name_of

MARKER = "spin_kernel"
"""Part of the name of the kernel that `device_sleep` launches."""
ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}


class Work(NamedTuple):
    """One kernel, copy or memset on the device."""

    name: str
    microseconds: float


class Call(NamedTuple):
    """One call of the operator `name`, such as "add.Tensor", and its work on the device."""

    name: str
    configuration: Configuration | None
    work: list[Work]

    @property
    def microseconds(self) -> float:
        return sum(work.microseconds for work in self.work)


class _Marks(TorchDispatchMode):
    """Launches a marker before and after each operator."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[tuple[str, Configuration | None]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device_sleep(0)
        out = func(*args, **kwargs)
        device_sleep(0)
        name = name_of(func)
        everything = (*args, *kwargs.values())
        self.called.append((name, _described(name, everything, list(tensors_in([out])))))
        return out


def _described(name: str, args: tuple, results: list) -> Configuration | None:
    try:
        return configuration(name, args, results)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None  # A sparse or nested tensor, or an argument that only CUDA's own call has.


def calls_of(runs: Iterable[Callable[[], object]]) -> list[list[Call]]:
    """Runs each of `runs` under one profile and returns, for each of them, the operators that it
    calls on the current stream, backward passes included, each with its work."""
    ends = []
    with (
        profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiled,
        _Marks() as marks,
    ):
        for run in runs:
            run()
            ends.append(len(marks.called))
        torch.cuda.synchronize()
    groups = list(_groups(_work(profiled)))
    if len(groups) != len(marks.called):
        raise RuntimeError(f"the profiler saw {len(groups)} of {len(marks.called)} calls")
    calls = [
        Call(name, described, work)
        for (name, described), work in zip(marks.called, groups, strict=True)
    ]
    return [calls[start:end] for start, end in pairwise([0, *ends])]


def _work(profiled: profile) -> Iterable[Work]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiled.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    rows = sorted((row for row in events if row.get("cat") in ON_DEVICE), key=lambda row: row["ts"])
    return [Work(row["name"], row["dur"]) for row in rows]


def _groups(work: Iterable[Work]) -> Iterator[list[Work]]:
    """Yields what lies between the markers of each pair."""
    inside: list[Work] | None = None
    for one in work:
        if MARKER not in one.name:
            if inside is not None:
                inside.append(one)
        elif inside is None:
            inside = []
        else:
            yield inside
            inside = None
