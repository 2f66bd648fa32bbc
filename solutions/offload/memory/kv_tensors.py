"""The tensors of a KV cache: pairs in GPU and CPU memory, in groups that share block ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd
from typing import Literal

import numpy as np
import torch

from debubble.accelerator import Accelerator

from ..paths.descriptors import WORD


@dataclass(frozen=True, eq=False)
class KVTensors:
    """One layer's KV cache in GPU memory, and its space in host memory, as bytes.

    `gpu` is int8 [num_gpu_blocks, page], `cpu` int8 [num_cpu_blocks, page * factor]. The bytes of a
    row are dense; after each row there may be memory of other tensors. `copied_bytes` of each page
    are copied, by default the whole page; the rest is padding. Raises ValueError for other tensors.
    """

    gpu: torch.Tensor
    cpu: torch.Tensor
    copied_bytes: int

    def __init__(
        self, gpu: torch.Tensor, cpu: torch.Tensor, copied_bytes: int | None = None
    ) -> None:
        _check_rows("gpu", gpu)
        _check_rows("cpu", cpu)
        if cpu.device.type != "cpu":
            raise ValueError(f"cpu is on {cpu.device}: it must be in host memory")
        if gpu.device.type == "cpu":
            raise ValueError("gpu is in host memory: it must be on the accelerator")
        object.__setattr__(self, "gpu", gpu)
        object.__setattr__(self, "cpu", cpu)
        copied = self.page if copied_bytes is None else copied_bytes
        object.__setattr__(self, "copied_bytes", copied)
        if not 0 < self.copied_bytes <= self.page:
            raise ValueError(
                f"copied_bytes of {self.copied_bytes}: copy at least 1, and at most a page of "
                f"{self.page}"
            )

    @property
    def page(self) -> int:
        """Bytes of one GPU block, and of each sub-block of a CPU block."""
        return self.gpu.shape[1]

    @property
    def strides(self) -> tuple[int, int]:
        """Bytes from one GPU block to the next, and from one CPU block to the next."""
        return self.gpu.stride(0), self.cpu.stride(0)

    @property
    def is_aligned(self) -> bool:
        """True if a kernel can copy all blocks: their addresses and sizes are multiples of 8."""
        addresses = (self.gpu.data_ptr(), self.cpu.data_ptr())
        return gcd(*addresses, *self.strides, self.page, self.copied_bytes) % WORD == 0


@dataclass(frozen=True, eq=False)
class KVGroup:
    """A group of layers whose blocks have the same ids: `tensors` has a pair for each layer, all
    with as many blocks as the first.

    A CPU block holds `block_size_factor` consecutive GPU blocks of a request. Raises ValueError,
    naming the tensor, if one doesn't fit.
    """

    tensors: Sequence[KVTensors]
    block_size_factor: int = 1
    layouts: list[Layout] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.tensors:
            raise ValueError("a group without tensors: give at least one pair")
        if self.block_size_factor < 1:
            raise ValueError(f"a block size factor of {self.block_size_factor}: it is at least 1")
        for index, pair in enumerate(self.tensors):
            self._check_pair(index, pair)
        object.__setattr__(self, "layouts", _layouts_of(self.tensors))

    @property
    def num_gpu_blocks(self) -> int:
        return self.tensors[0].gpu.shape[0]

    @property
    def num_cpu_blocks(self) -> int:
        return self.tensors[0].cpu.shape[0]

    def _check_pair(self, index: int, pair: KVTensors) -> None:
        row, factor = pair.cpu.shape[1], self.block_size_factor
        if row != pair.page * factor:
            raise ValueError(
                f"tensor {index}: a CPU block has {row} bytes, and {factor} pages of {pair.page} "
                f"bytes make {pair.page * factor}"
            )
        blocks = (pair.gpu.shape[0], pair.cpu.shape[0])
        if blocks != (self.num_gpu_blocks, self.num_cpu_blocks):
            raise ValueError(
                f"tensor {index} has {blocks[0]} GPU and {blocks[1]} CPU blocks, and tensor 0 "
                f"{self.num_gpu_blocks} and {self.num_cpu_blocks}: block ids hold for a whole group"
            )


@dataclass(frozen=True, eq=False)
class Layout:
    """A part of a group: tensors that differ only in their start address, so block i is equally far
    from the start of each of them. Sizes and strides are in bytes, as in `KVTensors`."""

    page: int
    copied_bytes: int
    gpu_stride: int
    cpu_stride: int
    gpu_bases: np.ndarray
    """int64 [tensors] start addresses of the GPU tensors."""
    cpu_bases: np.ndarray
    """int64 [tensors] start addresses of the CPU tensors."""


def _layouts_of(tensors: Sequence[KVTensors]) -> list[Layout]:
    alike: dict[tuple[int, int, int, int], list[KVTensors]] = {}
    for pair in tensors:
        alike.setdefault((pair.page, pair.copied_bytes, *pair.strides), []).append(pair)
    return [
        Layout(
            *layout,
            gpu_bases=np.array([pair.gpu.data_ptr() for pair in pairs], dtype=np.int64),
            cpu_bases=np.array([pair.cpu.data_ptr() for pair in pairs], dtype=np.int64),
        )
        for layout, pairs in alike.items()
    ]


def _check_rows(name: str, tensor: torch.Tensor) -> None:
    if tensor.dtype != torch.int8 or tensor.dim() != 2:
        raise ValueError(
            f"{name} is {tensor.dtype} {list(tensor.shape)}: give its bytes as int8 [blocks, bytes "
            "of a block], by view(torch.int8)"
        )
    if 0 in tensor.shape:
        raise ValueError(f"{name} has the shape {list(tensor.shape)}: there is nothing to copy")
    if tensor.stride(1) != 1 or (len(tensor) > 1 and tensor.stride(0) < tensor.shape[1]):
        raise ValueError(
            f"{name} has strides of {list(tensor.stride())}: the bytes of a block must be dense, "
            "and blocks must not overlap"
        )


def check_memory(accelerator: Accelerator, groups: Sequence[KVGroup]) -> None:
    """Raises ValueError, naming the tensor, unless all tensors are on the device and in page-locked
    host memory.

    A copy engine would accept pageable memory, and wait; a kernel that reads it ends the process's
    work on the GPU.
    """
    for number, group in enumerate(groups):
        for index, pair in enumerate(group.tensors):
            for side, place in (("gpu", "device"), ("cpu", "pinned")):
                if not _lies_in(accelerator, getattr(pair, side), place):
                    raise ValueError(f"group {number}, tensor {index}: {side} {NOT_THERE[place]}")


NOT_THERE = {
    "device": "is not in the memory of this accelerator: make it on accelerator.device",
    "pinned": (
        "is pageable host memory, which a kernel can't read: make it by pinned_blocks, or "
        "page-lock it by registered"
    ),
}


def copied_sizes(groups: Sequence[KVGroup]) -> list[int]:
    """Returns how many bytes of a page are copied, for each tensor of all groups. Instead it has 1,
    which no kernel can copy, for a tensor whose addresses or strides are no multiples of 8."""
    pairs = [pair for group in groups for pair in group.tensors]
    return [pair.copied_bytes if pair.is_aligned else 1 for pair in pairs]


def may_overlap(groups: Sequence[KVGroup], side: Literal["gpu", "cpu"]) -> bool:
    """True if the memory of two tensors on this side, from first to last byte, overlaps, so that
    two blocks may be the same memory."""
    spans = sorted(_span(getattr(pair, side)) for group in groups for pair in group.tensors)
    return any(start < end for (_, end), (start, _) in pairwise(spans))


def _lies_in(accelerator: Accelerator, tensor: torch.Tensor, place: str) -> bool:
    """True if all of the tensor is in memory of the kind `place`, "device" or "pinned". Memory that
    was page-locked in several calls consists of several ranges."""
    address, end = _span(tensor)
    while address < end:
        found = accelerator.memory_at(address)
        if found is None or found.place != place:
            return False
        address = found.start + found.nbytes
    return True


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the address of the tensor's first byte, and the address after its last byte."""
    start = tensor.data_ptr()
    return start, start + (len(tensor) - 1) * tensor.stride(0) + tensor.shape[1]
