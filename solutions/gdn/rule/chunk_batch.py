"""The batch that the three kernels of the chunked rule work on, their tile sizes, and their
dtypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work
from solutions.common.shared_memory import shared_memory_of

from .chunks import FLA_CHUNK_SIZE
from .segments import most_windows, segment_length

BLOCK_V = {True: 128, False: 32}
"""Number of values that one program computes, by whether products run on tensor cores: with K = 128
a state then takes 64 or 32 registers of each thread. Measured on an H200 with 8192 tokens and 16
heads: the third kernel takes 58 us with 128 values and 75 us with 64."""
ROWS = {True: 64, False: 32}
"""Number of rows of a state that one program passes through a segment, likewise."""
STAGES = 3
"""How many chunks the second kernel has in shared memory."""
OUTPUT_STAGES = {198 << 10: 3, 0: 2}
"""How many chunks the third kernel has in shared memory, by the bytes that it needs on an H100."""


def warps_for(block_v: int) -> int:
    """Returns the number of warps that compute `block_v` values: at least four, and no more than
    an H100's products can have, one for 16 rows."""
    return max(block_v // 16, 4)


def output_stages(shared_memory: int) -> int:
    """Returns the number of stages that fit into `shared_memory` bytes of a block."""
    return next(stages for least, stages in OUTPUT_STAGES.items() if shared_memory >= least)


@dataclass(frozen=True)
class ChunkBatch:
    """The inputs that all three kernels of the chunked rule share, with the tile sizes and
    constants that follow from them.

    `q`, `k` are [1, T, H, K], `v` is [1, T, HV, V], `cu_seqlens` [N + 1] int32 and `chunk_indices`
    [NT, 2] int32. `normalize` says that the kernels scale keys and queries to length 1.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    cu_seqlens: torch.Tensor
    chunk_indices: torch.Tensor
    normalize: bool

    @property
    def num_tokens(self) -> int:
        return self.v.shape[1]

    @property
    def num_seqs(self) -> int:
        return self.cu_seqlens.shape[0] - 1

    @property
    def num_chunks(self) -> int:
        """Number of rows of `chunk_indices`. There are more rows than chunks if the table was made
        on the device."""
        return self.chunk_indices.shape[0]

    @property
    def num_value_heads(self) -> int:
        return self.v.shape[2]

    @property
    def on_tensor_cores(self) -> bool:
        return self.q.dtype != torch.float32

    @property
    def block_v(self) -> int:
        return min(BLOCK_V[self.on_tensor_cores], self.v.shape[3])

    @property
    def pass_rows(self) -> int:
        """Number of rows of a state, or of a transition, that one program of the second kernel
        computes."""
        return min(ROWS[self.on_tensor_cores], self.q.shape[3], self.v.shape[3])

    @property
    def stages(self) -> int:
        return STAGES if self.on_tensor_cores else 1

    @property
    def output_stages(self) -> int:
        if not self.on_tensor_cores:
            return 1
        return output_stages(shared_memory_of(self.q.device))

    @property
    def segment(self) -> int:
        """Number of chunks of a segment."""
        return segment_length(self.num_chunks, self.num_value_heads)

    @property
    def num_windows(self) -> int:
        """Number of programs and of places for segments that begin inside a sequence, at least
        one."""
        return max(most_windows(self.num_chunks, self.segment), 1)

    @property
    def constants(self) -> dict[str, int | str | bool]:
        """Constants that all three kernels are compiled with, by the names of their parameters."""
        return {
            "GROUP": self.num_value_heads // self.q.shape[2],
            "CHUNK": FLA_CHUNK_SIZE,
            "K": self.q.shape[3],
            **product_constants(self.q.dtype),
        }

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Returns an uninitialised tensor on the batch's device; its dtype is by default that of
        the products."""
        dtype = product_type(self.q.dtype) if dtype is None else dtype
        return torch.empty(shape, dtype=dtype, device=self.q.device)

    def work(self, flops: float, *read_or_written: torch.Tensor) -> Work:
        """Returns the work of a kernel, for sim's cost model: `flops` per chunk and value head, and
        the bytes of each tensor that it reads or writes once."""
        return Work(
            flops=flops * self.num_chunks * self.num_value_heads,
            bytes=sum(tensor.numel() * tensor.element_size() for tensor in read_or_written),
            tensor_cores=self.on_tensor_cores,
        )


class ChunkSolution(NamedTuple):
    """Results of the first kernel, which looks at each chunk by itself; the other two kernels read
    them."""

    solved: torch.Tensor
    """[T, HV, FLA_CHUNK_SIZE] of the products' dtype: the rows of the matrix T in `chunk_stages`,
    one for each token."""
    scores: torch.Tensor
    """[T, HV, FLA_CHUNK_SIZE] of the products' dtype: the rows of the matrix P, likewise."""
    query_scales: torch.Tensor
    """[HV, T] float32: the factor with which each token's query reads the state before the
    chunk."""
    read_scales: torch.Tensor
    """[HV, T] float32: the factor with which each token's key reads the state before the chunk;
    negative, since the result is subtracted."""
    write_scales: torch.Tensor
    """[HV, T] float32: the factor with which each token's key writes to the state after the
    chunk."""
    chunk_decays: torch.Tensor
    """[NT, HV] float32: the factor by which the chunk scales the state before it."""
    chunk_bounds: torch.Tensor
    """[NT, HV] float32: the logarithm of a factor that the norm of the state before the chunk grows
    by at most, if nothing new is written."""


def product_constants(dtype: torch.dtype) -> dict[str, str | bool]:
    """Returns the constants PRECISION and UPCAST, by name, for a kernel that calls `product` on
    inputs of `dtype`."""
    precision = "ieee" if dtype == torch.float32 else "tf32"
    return {"PRECISION": precision, "UPCAST": triton.knobs.runtime.interpret}


def product_type(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype of tensors between two kernels, for inputs of `dtype`: the same dtype, but
    float32 in the interpreter, which truncates to bfloat16 instead of rounding."""
    return torch.float32 if triton.knobs.runtime.interpret else dtype


def inverse_type(dtype: torch.dtype) -> tl.dtype:
    """Returns the dtype of products in `inverse_of_unit_lower`, its KIND, if the inverse is rounded
    to `dtype` at the end."""
    return tl.float32 if product_type(dtype) == torch.float32 else tl.float16
