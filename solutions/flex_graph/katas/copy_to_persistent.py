"""Copies a step's tensor to where it always lies: a captured graph knows no other place."""

from __future__ import annotations

import torch


def copy_to_persistent(dst: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    """The part of `dst` that has the shape of `src`, from its start, filled with `src`
    (vLLM #36298). Its strides are those of `dst`, whatever the step: rows stay where a graph
    captured them. A `src` that is this very part is returned as it is, uncopied.

    ValueError if `src` is larger in some dimension, of another type, or on another device.
    """
    if dst.dim() != src.dim() or dst.dtype != src.dtype or dst.device != src.device:
        raise ValueError(
            f"{_described(src)} can't be copied to {_described(dst)}: make them alike in all but "
            "their sizes"
        )
    if any(size > room for size, room in zip(src.shape, dst.shape, strict=True)):
        raise ValueError(
            f"a tensor of {list(src.shape)} for persistent memory of {list(dst.shape)}: schedule "
            "less, or make the limits larger"
        )
    part = dst[tuple(map(slice, src.shape))]
    if (src.data_ptr(), src.stride()) == (part.data_ptr(), part.stride()):
        return src
    return part.copy_(src)


def _described(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"
