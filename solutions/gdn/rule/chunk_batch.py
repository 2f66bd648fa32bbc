"""What the three kernels of the chunked rule work on, how they are tiled, and in which types they
compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work

from .chunks import FLA_CHUNK_SIZE

BLOCK_V = {True: 64, False: 32}
"""Values of one program, by whether products run on tensor cores: with K = 128 a state then lies
in 64 or 32 registers of each thread. Below 64 rows an H100's faster products aren't used."""
FEW_CHUNKS = 3
"""Chunks per sequence, on average: with fewer there is nothing to load ahead for."""
MANY_PROGRAMS = 264
"""Of a launch: with more, each SM of an H200 has more than two."""


@dataclass(frozen=True)
class ChunkBatch:
    """The arguments that all three kernels share: q, k [1, T, H, K], v [1, T, HV, V], cu_seqlens
    [N + 1] int32 and chunk_indices [NT, 2] int32; `normalize`: whether the kernels scale keys and
    queries to length 1. And what follows from them: tile sizes, and constants of the kernels."""

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
        """Rows of the table: more than there are chunks if it was made on the device."""
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
        """Chunks in shared memory, of the one kernel that goes from chunk to chunk. Few programs
        need them early, many need the room for each other. Measured on an H200, 8192 tokens: of
        sequences of 64 tokens 132 us in one stage and 197 us in four, of 256 tokens 77 us in three
        and 96 us in four, of 1 and of 8185 tokens 331 us in three and 200 us in four."""
        if not self.on_tensor_cores or self.num_chunks < FEW_CHUNKS * self.num_seqs:
            return 1
        programs = self.num_seqs * self.num_value_heads * (self.v.shape[3] // self.block_v)
        return 3 if programs > MANY_PROGRAMS else 4

    @property
    def constants(self) -> dict[str, int | str | bool]:
        """What all three kernels are compiled for, by the names of their parameters."""
        return {
            "GROUP": self.num_value_heads // self.q.shape[2],
            "CHUNK": FLA_CHUNK_SIZE,
            "K": self.q.shape[3],
            **product_constants(self.q.dtype),
        }

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """An uninitialised tensor on the batch's device, by default of the products' type."""
        dtype = product_type(self.q.dtype) if dtype is None else dtype
        return torch.empty(shape, dtype=dtype, device=self.q.device)

    def work(self, flops: float, *read_or_written: torch.Tensor) -> Work:
        """`flops` per chunk and value head; each tensor read or written once."""
        return Work(
            flops=flops * self.num_chunks * self.num_value_heads,
            bytes=sum(tensor.numel() * tensor.element_size() for tensor in read_or_written),
            tensor_cores=self.on_tensor_cores,
        )


class ChunkSolution(NamedTuple):
    """What the first kernel finds out about each chunk by itself, for the two that follow."""

    solved: torch.Tensor
    """[T, HV, FLA_CHUNK_SIZE] of the products' type: T of `chunk_stages`, a row for each token."""
    decays: torch.Tensor
    """[HV, T] float32: the gates of a token's chunk, added up to this token."""
    key_norms: torch.Tensor
    """[HV, T] float32: what scales a token's key to length 1, or 1 where that isn't asked for."""
    read_scales: torch.Tensor
    """[HV, T] float32: by what the state before the chunk is scaled where a key reads it; negative,
    since what it reads is taken away."""
    write_scales: torch.Tensor
    """[HV, T] float32: by what a key is scaled where it writes to the state behind the chunk."""
    chunk_decays: torch.Tensor
    """[NT, HV] float32: by what the chunk scales the state that it found."""


def product_constants(dtype: torch.dtype) -> dict[str, str | bool]:
    """PRECISION and UPCAST of a kernel that multiplies by `product`, for inputs of `dtype`."""
    precision = "ieee" if dtype == torch.float32 else "tf32"
    return {"PRECISION": precision, "UPCAST": triton.knobs.runtime.interpret}


def product_type(dtype: torch.dtype) -> torch.dtype:
    """The dtype of what one kernel hands the next, for inputs of `dtype`: the same, and float32 in
    the interpreter, which rounds to bfloat16 by cutting off."""
    return torch.float32 if triton.knobs.runtime.interpret else dtype


def inverse_type(dtype: torch.dtype) -> tl.dtype:
    """The type in which `inverse_of_unit_lower` multiplies, its KIND, where the inverse is rounded
    to `dtype` in the end."""
    return tl.float32 if product_type(dtype) == torch.float32 else tl.float16
