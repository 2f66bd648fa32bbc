"""Finds operators that write several values to one place, of which a GPU may keep any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from debubble.timeline.event import Hazard

from ...clock.device import SimDevice

aten = torch.ops.aten
MASKS = (torch.bool, torch.uint8)
Written = tuple[torch.Tensor, torch.Tensor]
"""Two tensors of one shape: the values found in the places that an operator wrote, and the values
that it was given for them."""


def index_put(
    out: torch.Tensor,
    to: torch.Tensor,
    indices: list[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Written | None:
    chooses = any(index is not None and index.dtype not in MASKS for index in indices)
    if accumulate or not chooses:
        return None
    there = aten.index.Tensor(out, indices)
    return there, values.broadcast_to(there.shape)


def scatter(
    out: torch.Tensor, to: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor
) -> Written:
    return out.gather(dim, index), src[tuple(map(slice, index.shape))]


def index_copy(
    out: torch.Tensor, to: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> Written:
    there = out.index_select(dim, index)
    return there, source.reshape(there.shape)


def put(
    out: torch.Tensor,
    to: torch.Tensor,
    index: torch.Tensor,
    source: torch.Tensor,
    accumulate: bool = False,
) -> Written | None:
    return None if accumulate else (out.take(index), source.reshape(index.shape))


WRITTEN: dict[str, Callable[..., Written | None]] = {
    "index_put": index_put,
    "index_put_": index_put,
    "_index_put_impl_": index_put,
    "scatter.src": scatter,
    "scatter_.src": scatter,
    "index_copy": index_copy,
    "index_copy_": index_copy,
    "put": put,
    "put_": put,
}
"""The function that returns the values found and given, by operator, or None if none can be lost.
It takes the operator's result, then its arguments."""


def noting_losses(
    device: SimDevice, name: str, call: Callable[[], Any], args: list, kwargs: dict[str, Any]
) -> Callable[[], Any]:
    """Returns a version of `call`, which runs operator `name`, that notes a hazard if different
    values were written to one place. It notes at most one, and none during a capture, because the
    indices hold no real values then."""
    captured_at = device.source() if device.capturing is not None else None
    noted = False

    def run() -> Any:
        nonlocal noted
        out = call()
        if device.capturing is None and not noted:
            written = WRITTEN[name](out, *args, **kwargs)
            noted = written is not None and _differ(*written)
            if noted:
                line = captured_at or device.source()
                device.hazards.append(Hazard("undefined_order", MESSAGE.format(line), line, line))
        return out

    return run


MESSAGE = (
    "{} writes different values to one place, and which of them stays is undefined on a GPU: make "
    "the indices distinct, or say how values are joined (scatter_reduce_, accumulate=True)"
)


def _differ(there: torch.Tensor, given: torch.Tensor) -> bool:
    """Returns True if the values in `there` are not all those in `given`. NaN counts as equal to
    NaN."""
    return bool(((there != given) & ~(there.isnan() & given.isnan())).any())
