"""The rules of `copy_` and `to` between host and device, as PyTorch has them for CUDA.

Only metadata of tensors is used: shape, stride, dtype, address and whether they are pinned.
"""

from __future__ import annotations

from typing import Literal

import torch

from ..clock.action import SYNC, Action, copy, is_taken_over, kernel
from ..timeline.event import CopyKind

Direction = Literal["h2d", "d2h", "d2d"]


def device_copy(target: torch.Tensor, source: torch.Tensor) -> list[Action]:
    """Returns the actions of a copy on the device: one memcpy if both tensors have the same dtype
    and are dense in the same order, else one kernel."""
    if source.numel() == 0 or _is_same(target, source):
        return []
    same_bits = target.is_conj() == source.is_conj() and target.is_neg() == source.is_neg()
    if same_bits and target.dtype == source.dtype and dense_alike(target, source):
        return [copy("d2d", nbytes_of(source))]
    return [kernel("copy", nbytes_of(target) + nbytes_of(source))]


def upload(target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> list[Action]:
    """Returns the actions of a copy from host to device. Another dtype is converted on the device
    after the copy if `non_blocking`, else on the CPU before it. A source with holes, or converted
    on the CPU, goes through fresh pageable memory."""
    if target.numel() == 0:
        return []
    same_dtype = target.dtype == source.dtype
    if same_dtype and dense_alike(target, source):
        return _between(_upload_kind(source), nbytes_of(source), non_blocking)
    as_it_is = source.shape == target.shape and source.is_contiguous()
    converted_first = not non_blocking and not same_dtype
    kind = _upload_kind(source) if as_it_is and not converted_first else "h2d_pageable"
    travelling = target if converted_first else source
    moved = target.numel() * travelling.element_size()
    actions = _between(kind, moved, non_blocking)
    if not target.is_contiguous() or not (same_dtype or converted_first):
        actions.append(kernel("copy", moved + nbytes_of(target)))
    return actions


def upload_of_bytes(nbytes: int) -> list[Action]:
    """Returns the actions of a blocking copy of `nbytes` bytes from pageable memory."""
    return _between("h2d_pageable", nbytes, non_blocking=False) if nbytes else []


def download(target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> list[Action]:
    """Returns the actions of a copy from device to host. A kernel first makes the source dense, or
    converts its dtype if `non_blocking`. A target with holes gets its values through fresh pageable
    memory."""
    if target.numel() == 0:
        return []
    actions = []
    same_dtype = target.dtype == source.dtype
    as_it_is = same_dtype and dense_alike(target, source)
    if not as_it_is:
        if non_blocking and not same_dtype:
            actions.append(kernel("convert", nbytes_of(source) + nbytes_of(target)))
        elif not source.is_contiguous():
            actions.append(kernel("contiguous", 2 * nbytes_of(source)))
    into_pinned = target.is_pinned() and (as_it_is or target.is_contiguous())
    return actions + _between("d2h", nbytes_of(target), non_blocking, into_pinned)


def copy_of_bytes(kind: Direction, nbytes: int, *, pageable: bool = False) -> Action:
    """Returns the asynchronous copy between addresses, of `kind` "h2d", "d2h" or "d2d"."""
    if kind == "h2d":
        return _between("h2d_pageable" if pageable else "h2d_pinned", nbytes, True)[0]
    return _between(kind, nbytes, True, host_is_pinned=not pageable)[0]


def dense_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Returns True if both tensors cover dense memory in the same order, so that their bytes can be
    copied at once."""
    if a.shape != b.shape:
        return False
    if a.is_contiguous() and b.is_contiguous():
        return True
    expected = 1
    for dimension in sorted(range(a.dim()), key=a.stride):
        if a.size(dimension) == 1:
            continue
        if a.stride(dimension) != expected or b.stride(dimension) != expected:
            return False
        expected *= a.size(dimension)
    return True


def nbytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _between(
    kind: CopyKind, nbytes: int, non_blocking: bool, host_is_pinned: bool = True
) -> list[Action]:
    """Returns a copy, with a synchronisation after it if it is blocking. A copy that uses pageable
    memory may hold the host in the driver even if it is non-blocking."""
    pageable = not host_is_pinned
    if not non_blocking:
        return [copy(kind, nbytes, pageable=pageable), SYNC]
    waits = kind == "h2d_pageable" and not is_taken_over(kind, nbytes)
    return [copy(kind, nbytes, host_blocks=waits or pageable, pageable=pageable)]


def _upload_kind(source: torch.Tensor) -> CopyKind:
    return "h2d_pinned" if source.is_pinned() else "h2d_pageable"


def _is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.data_ptr(), a.shape, a.stride(), a.dtype) == (
        b.data_ptr(),
        b.shape,
        b.stride(),
        b.dtype,
    )
