"""Sorting, scans, sums and draws."""

from __future__ import annotations

import torch

from ..effects import ONE_KERNEL, Effects
from .answers import LARGE, SORTED_IN_ONE_BLOCK


def sort(args: tuple, kwargs: dict) -> Effects:
    tensor = args[0]
    length = tensor.size(dimension_of(args, kwargs)) if tensor.dim() else 1
    if tensor.numel() <= 1:
        return Effects(kernels=0, d2d=1)
    if tensor.numel() == length:
        return (
            Effects(d2d=1, kernels=7) if length > SORTED_IN_ONE_BLOCK else Effects(d2d=3, kernels=2)
        )
    return (
        Effects(d2d=2, kernels=3) if length <= SORTED_IN_ONE_BLOCK else Effects(d2d=1, kernels=11)
    )


def dimension_of(args: tuple, kwargs: dict) -> int:
    integers = [a for a in args[1:] if isinstance(a, int) and not isinstance(a, bool)]
    return integers[0] if integers else kwargs.get("dim", -1)


def topk(args: tuple, kwargs: dict) -> Effects:
    in_order = args[4] if len(args) > 4 else kwargs.get("sorted", True)
    return Effects(kernels=1 + (in_order and args[1] > 1) if args[0].numel() <= LARGE else 20)


def scan(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `cumsum` and `cumprod`: one kernel, a library's two kernels for a
    tensor of one dimension, and one more to convert the dtype first."""
    return Effects(kernels=1 + _converts(args[0], kwargs) + (args[0].dim() == 1))


def segment_reduce(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `segment_reduce`: the host reads whether `lengths` are negative and
    add up, unless `unsafe` is set."""
    if kwargs.get("lengths") is None:
        return Effects(kernels=2)
    if kwargs.get("unsafe"):
        return Effects(kernels=5)
    return Effects(d2d=1, kernels=6, reads=2, kernels_after=2)


def total(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `sum`: one kernel, and one that converts the dtype first; sums of half
    precision in fp32 convert while they read."""
    halves = args[0].dtype in (torch.float16, torch.bfloat16)
    if halves and kwargs.get("dtype") == torch.float32:
        return ONE_KERNEL
    return Effects(kernels=1 + _converts(args[0], kwargs))


def of_all(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `all` and `any`: one kernel. A single value is copied instead, and
    converted first if it is no bool."""
    if args[0].numel() != 1:
        return ONE_KERNEL
    return Effects(d2d=1, kernels=int(args[0].dtype != torch.bool))


def _converts(tensor: torch.Tensor, kwargs: dict) -> bool:
    """Returns True if the elements are converted before they are summed, as small integers are to
    int64."""
    whole = not tensor.is_floating_point() and not tensor.is_complex()
    wanted = kwargs.get("dtype") or (torch.int64 if whole else tensor.dtype)
    return wanted != tensor.dtype


def permutation(args: tuple, kwargs: dict) -> Effects:
    return Effects(kernels=5 if args[0] < 30000 else 11)


def normal(args: tuple, kwargs: dict) -> Effects:
    """Returns the effects of `normal`: the host checks that no standard deviation is negative,
    twice, or once with `out=`."""
    std = args[1] if len(args) > 1 else kwargs.get("std")
    if not isinstance(std, torch.Tensor):
        return Effects(kernels=2)
    if std.numel() == 0:
        return ONE_KERNEL
    checks = 1 if "out" in kwargs else 2
    return Effects(kernels=2 * checks, reads=checks, kernels_after=3)


def multinomial(args: tuple, kwargs: dict) -> Effects:
    replacement = args[2] if len(args) > 2 else kwargs.get("replacement", False)
    if replacement and args[1] > 1:
        return Effects(d2d=2, kernels=3)
    one_row = args[0].dim() == 2 and args[0].size(0) == 1
    return Effects(d2d=int(one_row), kernels=14 - one_row)
