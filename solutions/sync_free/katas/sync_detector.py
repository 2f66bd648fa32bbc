"""A small sync detector: notes the lines at which an operator makes the host wait for the device.

PyTorch shows a dispatch mode every operator before it runs. Most waits can be told from the
operator and from where its tensors lie. Two kinds of wait are not shown: calls that are no
operator, such as `event.synchronize()`, and the printing of a tensor. `debubble.find_host_syncs` is
more complete: it sees both, and knows operators that are missing here.

Only the kata `sync_detector` runs this detector: the workbook uses `debubble.find_host_syncs`.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import debubble.accelerator

aten = torch.ops.aten
DEPENDS_ON_DATA = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""PyTorch's tags for operators whose result or its shape depends on a tensor's values."""
MACHINERY = (os.path.dirname(torch.__file__), os.path.dirname(debubble.__file__) + os.sep, __file__)
"""Beginnings of the paths of PyTorch, debubble and this file: a line in these files is never named
as the cause of a wait."""


class Wait(NamedTuple):
    """A cause of a wait, and the function and source text of the line that asked for it."""

    what: str
    function: str
    line: str


class SyncDetector(TorchDispatchMode):
    """A dispatch mode that notes in `waits` what makes the host wait in its block (vLLM #41429).

    It notes values or sizes that the host needs, blocking copies between host and device,
    non-blocking copies from or to host memory that is pageable or has holes, and Python values that
    are uploaded. It watches its own thread, except in `allow_waits`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[Wait] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.is_inference_mode_enabled():
            # In inference mode a composite operator, such as `cpu`, arrives undivided.
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        what = None if _allowed.get() else why_it_waits(func, args, kwargs)
        if what:
            self.waits.append(Wait(what, *calling_line()))
        return func(*args, **kwargs)


_allowed: ContextVar[bool] = ContextVar("waits are allowed", default=False)
"""True inside `allow_waits`. Each thread has a value of its own, which starts as False."""


@contextmanager
def allow_waits() -> Iterator[None]:
    """Declares the waits in this block intended: no detector of this thread notes them."""
    outer = _allowed.set(True)
    try:
        yield
    finally:
        _allowed.reset(outer)


def calling_line() -> tuple[str, str]:
    """Returns the function and source text of the running line, the innermost outside MACHINERY."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(MACHINERY):
            return frame.name, frame.line or ""
    return "", ""


def why_it_waits(
    func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]
) -> str | None:
    """Returns what makes the host wait in the operator `func`, called with these arguments, or None
    if nothing does."""
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.numel()]
    uploads = func is aten._to_copy.default and tensors
    if not (uploads or any(map(on_device, tensors))):
        return None
    if func in RULES:
        return RULES[func](*args, **kwargs)
    if DEPENDS_ON_DATA.intersection(func.tags):
        return f"{func.overloadpacket.__name__} has to know values that are on the device"
    return None


def to_copy(
    source: torch.Tensor,
    *,
    device: torch.device | str | None = None,
    non_blocking: bool = False,
    **options: object,
) -> str | None:
    """Returns why `source.to(...)` makes the host wait, or None. The target is a new tensor: pinned
    if it is on the host and the copy is `non_blocking`."""
    if on_device(source) and non_blocking:
        return None
    goes_to_host = torch.device(device or source.device).type == "cpu"
    target = torch.empty_like(source, device="cpu" if goes_to_host else "meta")
    return copy_(target, source, non_blocking)


def copy_(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> str | None:
    """Returns why `target.copy_(source)` makes the host wait, or None."""
    if on_device(target) == on_device(source):
        return None
    host, way = (source, "from") if on_device(target) else (target, "to")
    if not non_blocking:
        return f"a blocking copy {way} the host"
    if not host.is_pinned():
        return f"a copy {way} pageable host memory"
    dense = aten.is_non_overlapping_and_dense.default(host)
    lies_alike = host.is_contiguous() or (dense and target.stride() == source.stride())
    if target.shape == source.shape and lies_alike:
        return None
    return f"a copy {way} host memory with holes"


def index(tensor: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> str | None:
    """Returns why `tensor[indices]` makes the host wait, or None: host integers are uploaded, and
    device masks are counted."""
    for chosen in indices:
        is_mask = chosen is not None and chosen.dtype == torch.bool
        if chosen is not None and on_device(chosen) == is_mask:
            return "a mask has to be counted" if is_mask else "an index goes to the device"
    return None


def index_put_(
    tensor: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    value: torch.Tensor,
    accumulate: bool = False,
) -> str | None:
    """Returns why `tensor[indices] = value` makes the host wait, or None. A number assigned through
    one mask is only a fill: nothing is counted or uploaded."""
    if on_device(value):
        return index(tensor, indices)
    through_mask = [chosen is not None and chosen.dtype == torch.bool for chosen in indices]
    return None if through_mask == [True] else "the value goes to the device"


def on_device(tensor: torch.Tensor) -> bool:
    return tensor.device.type != "cpu"


RULES: dict[OpOverload, Callable[..., str | None]] = {
    aten._local_scalar_dense.default: lambda tensor: "a value is read",
    aten._to_copy.default: to_copy,
    aten.copy_.default: copy_,
    aten.lift_fresh.default: lambda made: "Python values go to the device",
    aten.index.Tensor: index,
    aten.index_put_.default: index_put_,
    aten.repeat_interleave.Tensor: lambda repeats, output_size=None: (
        "how often it repeats has to be added up" if output_size is None else None
    ),
    aten.one_hot.default: lambda index, num_classes=-1: (
        "the largest index has to be known" if num_classes == -1 else None
    ),
}
"""Functions for the operators whose tags say too little or too much. Each takes the operator's
arguments and returns why the host waits, or None."""
