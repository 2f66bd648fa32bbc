"""Checks the arguments of single ops, by shape, dtype and strides, before any launch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from solutions.common.decoder.shape import FLOATS

from ..arguments import is_dense

FLOAT32 = (torch.float32,)


def check_operand(
    name: str,
    tensor: torch.Tensor,
    shape: Sequence[int | str],
    device: torch.device,
    dtypes: Sequence[torch.dtype] = FLOATS,
    dense_from: int = 1,
) -> None:
    """Raises ValueError unless `tensor` has this shape, in which a word stands for any size, one of
    these dtypes, is on `device`, and is contiguous from dimension `dense_from` on. `name` is for
    the message."""
    fits = tensor.dim() == len(shape) and all(
        isinstance(expected, str) or size == expected
        for size, expected in zip(tensor.shape, shape, strict=True)
    )
    on_device = tensor.device == device
    if fits and on_device and tensor.dtype in dtypes and is_dense(tensor, dense_from):
        return
    sizes, types = ", ".join(map(str, shape)), ", ".join(map(str, dtypes))
    extent = "contiguous" if dense_from == 1 else "what belongs to one token contiguous"
    raise ValueError(
        f"{name} is {tensor.dtype} {list(tensor.shape)} with strides {list(tensor.stride())} on "
        f"{tensor.device}: make it [{sizes}] on {device}, {types}, {extent}"
    )


def check_groups(num_heads: int, num_value_heads: int) -> None:
    """Raises ValueError unless the number of value heads is a multiple of the number of key
    heads."""
    if not num_heads or num_value_heads % num_heads:
        raise ValueError(
            f"{num_value_heads} value heads for {num_heads} key heads: make it a multiple of them"
        )
