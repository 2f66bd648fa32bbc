"""Scans, sums and draws."""

from __future__ import annotations

import torch

from ..effects import ONE_KERNEL, Effects


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
