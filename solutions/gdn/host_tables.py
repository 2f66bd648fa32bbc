"""The chunk tables for callers with their own starts: checked, made on the host, and sent by one
upload."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from solutions.common.host_integers import HostIntegers, host_integers, sequence_lengths
from solutions.common.packed_upload import DeviceArrays, HostArrays, upload_packed

from . import chunk_tables
from .rule.chunks import FLA_CHUNK_SIZE, ChunkTables, check_chunk_size


def prepare_chunk_indices(
    cu_seqlens: HostIntegers, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """Returns the table of chunks, [NT, 2] int32 on the host: a row (sequence, chunk in this
    sequence) for each chunk, in order (vLLM #38361).

    `cu_seqlens` is [num_seqs + 1] integers on the host: where each sequence starts, then the end of
    the last one. Raises the errors of `plan_chunk_tables`.
    """
    return chunk_tables.prepare_chunk_indices(_checked(cu_seqlens, chunk_size), chunk_size)


def prepare_chunk_offsets(
    cu_seqlens: HostIntegers, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """Returns [num_seqs + 1] int64 on the host: the number of chunks before each sequence, then the
    number of all chunks (vLLM #38361). The arguments and errors are those of
    `prepare_chunk_indices`."""
    return chunk_tables.prepare_chunk_offsets(_checked(cu_seqlens, chunk_size), chunk_size)


def upload_chunk_tables(
    cu_seqlens: HostIntegers, device: torch.device, chunk_size: int = FLA_CHUNK_SIZE
) -> ChunkTables:
    """Returns both chunk tables of `cu_seqlens` on `device`, made on the host and sent by one
    upload without a wait. Raises the errors of `plan_chunk_tables`."""
    plan = plan_chunk_tables(cu_seqlens, chunk_size)
    return plan.apply(upload_packed(plan.arrays, device))


def plan_chunk_tables(
    cu_seqlens: HostIntegers, chunk_size: int = FLA_CHUNK_SIZE, num_tokens: int | None = None
) -> ChunkTablesPlan:
    """Returns both chunk tables as arrays on the host, to be uploaded with whatever else a step
    needs.

    Raises ValueError if `cu_seqlens` doesn't start at 0, decreases, or doesn't end at `num_tokens`,
    and if the chunk size is no power of two or below SMALLEST_CHUNK.
    """
    starts = _checked(cu_seqlens, chunk_size, num_tokens)
    tables = chunk_tables.prepare_chunk_tables(starts, chunk_size)
    return ChunkTablesPlan({name: table.numpy() for name, table in tables._asdict().items()})


@dataclass(frozen=True)
class ChunkTablesPlan:
    """Both chunk tables on the host, ready for the upload: `arrays` has them under the names of
    ChunkTables' fields."""

    arrays: HostArrays

    def apply(self, on_device: DeviceArrays) -> ChunkTables:
        """Returns both chunk tables as tensors on the device. `on_device` is the uploaded
        `arrays`."""
        return ChunkTables(**on_device)


def _checked(
    cu_seqlens: HostIntegers, chunk_size: int, num_tokens: int | None = None
) -> torch.Tensor:
    """Returns `cu_seqlens` as a checked int64 tensor on the host. Raises the errors of
    `plan_chunk_tables`."""
    check_chunk_size(chunk_size)
    starts = host_integers("cu_seqlens", cu_seqlens)
    sequence_lengths("cu_seqlens", starts, num_tokens)
    return torch.from_numpy(starts)
