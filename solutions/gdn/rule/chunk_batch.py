"""The batch that the three kernels of the chunked rule work on, their tile sizes, and their
dtypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work

from .chunks import FLA_CHUNK_SIZE

BLOCK_V = {True: 64, False: 32}
"""Number of values that one program computes, by whether products run on tensor cores: with K = 128
a state then takes 64 or 32 registers of each thread. With fewer than 64 rows an H100's faster
products aren't used."""
FEW_CHUNKS = 3
"""Average number of chunks per sequence below which the state pass loads no chunks ahead."""
MANY_PROGRAMS = 264
"""Number of programs of a launch above which each SM of an H200 has more than two."""


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
    def stages(self) -> int:
        """How many chunks the state pass, the kernel that goes from chunk to chunk, has in shared
        memory.

        Few programs need chunks loaded early; many programs need the memory for one another.
        Measured on an H200 with 8192 tokens: sequences of 64 tokens take 132 us with one stage and
        197 us with four, sequences of 256 tokens 77 us with three and 96 us with four, and
        sequences of 1 and of 8185 tokens 331 us with three and 200 us with four.
        """
        if not self.on_tensor_cores or self.num_chunks < FEW_CHUNKS * self.num_seqs:
            return 1
        programs = self.num_seqs * self.num_value_heads * (self.v.shape[3] // self.block_v)
        return 3 if programs > MANY_PROGRAMS else 4

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
    decays: torch.Tensor
    """[HV, T] float32: for each token the sum of the gates from the start of its chunk up to this
    token."""
    key_norms: torch.Tensor
    """[HV, T] float32: the factor that scales each token's key to length 1; 1 without
    normalising."""
    read_scales: torch.Tensor
    """[HV, T] float32: the factor with which each token's key reads the state before the chunk;
    negative, since the result is subtracted."""
    write_scales: torch.Tensor
    """[HV, T] float32: the factor with which each token's key writes to the state after the
    chunk."""
    chunk_decays: torch.Tensor
    """[NT, HV] float32: the factor by which the chunk scales the state before it."""


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
