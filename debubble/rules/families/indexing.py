"""Operators that read, write or choose by index or mask."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import torch

from ..effects import NOTHING, ONE_KERNEL, Effects
from ..gradients import adds_into_zeros
from .answers import nonzero
from .sorting import kernels_to_accumulate


def index_tensors(indices: Iterable[torch.Tensor | None]) -> Effects:
    """Returns the effects of bringing the index tensors and masks of `x[indices]` to the device as
    int64."""
    total = NOTHING
    for index in indices:
        if index is None:
            continue
        is_mask = index.dtype in (torch.bool, torch.uint8)
        if index.device.type == "cpu" and index.numel() > 0:
            total += Effects(uploads=not is_mask, pinned_uploads=is_mask, kernels=0)
        elif is_mask:
            total += nonzero((index,), {})
        elif index.dtype == torch.int32 and index.numel() > 0:
            total += ONE_KERNEL  # It is converted to int64 first.
    return total


def repeat_interleave(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `repeat_interleave`: the host reads the size of the result, and
    whether a count is negative, unless `output_size` is given."""
    uploads = index_tensors(args[:1]) if args[0].device.type == "cpu" else NOTHING
    if kwargs.get("output_size") is not None:
        return uploads + Effects(kernels=3)
    return uploads + Effects(kernels=4, reads=2, kernels_after=1)


def index(args: tuple, kwargs: dict) -> Effects:
    return index_tensors(args[1]) + Effects(kernels=0, kernels_after=1)


def index_put_(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `x[indices] = value`: one kernel if a number is written through one
    mask on the device. Otherwise a value and indices on the CPU are uploaded first."""
    indices, value = args[1:3]
    accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    from_host = value.device.type == "cpu"
    given = [i for i in indices if i is not None]
    is_mask = len(given) == 1 and given[0].dtype == torch.bool and given[0].device.type != "cpu"
    if is_mask and from_host and value.numel() == 1:
        return ONE_KERNEL
    kernels = _accumulate(args[0], indices, is_checked=args[4:5] != (True,)) if accumulate else 1
    put = Effects(kernels=0, kernels_after=kernels)
    return index_tensors(indices) + put + Effects(uploads=from_host, kernels=0)


def _accumulate(
    target: torch.Tensor, indices: Sequence[torch.Tensor | None], is_checked: bool
) -> int:
    """Returns the kernels that add values at `indices` of `target`. How many indices a mask chooses
    is not known: it counts with all its elements."""
    masks = [i for i in indices if i is not None and i.dtype in (torch.bool, torch.uint8)]
    numbers = [i for i in indices if i is not None and i.dtype not in (torch.bool, torch.uint8)]
    number = torch.broadcast_shapes(*(index.shape for index in numbers)).numel()
    dimensions = len(numbers) + sum(mask.dim() for mask in masks)
    most = max(number, *(m.numel() for m in masks), 1)
    return kernels_to_accumulate(target, most, dimensions, is_checked)


def index_put(args: tuple, kwargs: dict) -> Effects:
    if adds_into_zeros():
        return index_put_((*args, True), kwargs)
    return Effects(d2d=1, kernels=0) + index_put_(args, kwargs)


def fill_with_tensor(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `index_fill_` and `masked_fill_` with a tensor as value: if it lies on
    the device, the host reads it back, because these operators take a number."""
    return Effects(reads=args[-1].device.type != "cpu", kernels=0, kernels_after=1)


def filled_with_tensor(args: tuple, kwargs: dict) -> Effects:
    return Effects(d2d=1, kernels=0) + fill_with_tensor(args, kwargs)


def where(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `where`: an upload of each CPU scalar, because the kernel takes its
    values on the device."""
    scalars = [a for a in args if isinstance(a, torch.Tensor) and a.device.type == "cpu"]
    return Effects(uploads=len(scalars))


def concatenation(args: tuple, kwargs: dict) -> Effects:
    tensors = args[0]
    if len(tensors) == 1:
        return Effects(kernels=0, d2d=1)
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        return ONE_KERNEL
    widest = functools.reduce(torch.promote_types, dtypes)
    kept = sum(tensor.dtype == widest for tensor in tensors)
    return Effects(d2d=kept, kernels=len(tensors) - kept)


def one_hot(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `one_hot`: the host reads the largest index, unless `num_classes` is
    given."""
    classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    return Effects(kernels=2) if classes != -1 else Effects(kernels=1, reads=1, kernels_after=2)


def isin(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `isin`: few test values are compared one by one, many are sorted, and
    then the host reads twice."""
    elements, tests = args[:2]
    if tests.numel() < 10 * elements.numel() ** 0.145:
        one_pair = elements.numel() == tests.numel() == 1
        return Effects(d2d=1 + one_pair, kernels=3 - one_pair)
    return Effects(uploads=1, d2d=5, kernels=26, reads=2)
