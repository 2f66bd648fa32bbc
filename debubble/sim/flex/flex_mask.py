"""A mask function on sim: traced at each call, then run on the memory that the trace read.

A compiler does the same. Python numbers and tensor addresses become constants, so a graph replays
the mask of its capture, even if the Python values have changed since.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ..tensor import SimTensor
from .flex_tracing import INDICES, Asking, Slot, Tracing

MaskMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class _Step(NamedTuple):
    func: Any
    args: tuple
    kwargs: dict[str, Any]
    result: int


@dataclass(slots=True)
class MaskTrace:
    """The recorded operators of a mask function, in order. Their values are in numbered slots, of
    which the first four are b, h, q and kv."""

    captured: dict[int, torch.Tensor] = field(default_factory=dict)
    """The CPU data of tensors from before the trace that the mask reads, by slot."""
    steps: list[_Step] = field(default_factory=list)
    num_slots: int = 0
    result: int = 0

    def run(self, *indices: torch.Tensor) -> torch.Tensor:
        """Runs the recorded operators on CPU index tensors b, h, q and kv. Returns the mask: bool,
        of the shape to which they broadcast, or smaller if it doesn't depend on one of them."""
        values: list[Any] = [*indices, *[None] * (self.num_slots - len(indices))]
        for slot, tensor in self.captured.items():
            values[slot] = tensor
        for func, args, kwargs, result in self.steps:
            named = {name: _filled(value, values) for name, value in kwargs.items()}
            values[result] = func(*_filled(args, values), **named)
        return values[self.result]


def trace(mask_mod: MaskMod) -> tuple[MaskTrace, list[SimTensor]]:
    """Runs a mask function once, on tensors without values. Returns its trace and the tensors that
    it reads.

    Raises RuntimeError if the function makes the host wait, writes to a tensor, reads host memory,
    or computes anything but one bool for each pair of positions.
    """
    tracing = Tracing()
    indices = [tracing.index(shape) for shape in INDICES]
    with torch.no_grad(), Asking(), tracing:
        out = mask_mod(*indices)
    if not isinstance(out, torch.Tensor) or out.dtype != torch.bool:
        what = out.dtype if isinstance(out, torch.Tensor) else type(out).__name__
        raise RuntimeError(f"a mask function returns a bool tensor, and this one {what}")
    result = tracing.slot_of(out)
    steps = [_Step(*step) for step in tracing.steps]
    return MaskTrace(tracing.captured, steps, tracing.num_slots, result), tracing.reads


def _filled(value: Any, values: list[Any]) -> Any:
    if type(value) is Slot:
        return values[value]
    if isinstance(value, (list, tuple)):
        return type(value)([_filled(item, values) for item in value])
    return value
