"""Plans, once a step, which chunk of which sequence each program of the convolution works on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from solutions.common.host_integers import HostIntegers, host_integers, sequence_lengths
from solutions.common.packed_upload import DeviceArrays, Planned, upload_and_apply

CHUNK_TOKENS = 8
"""Number of tokens of one sequence that one program convolves. It is a power of two, and at least
as many as the inputs that the widest kernel looks back, so that only a sequence's first chunk needs
its state."""
PAD_SLOT = -1
"""The cache index of a sequence that only pads the batch: it has no state, and is not convolved."""


@dataclass(frozen=True)
class ConvMetadata:
    """Tables that tell each program of the convolution what to work on, the same for all layers of
    a step.

    `batch_of_chunk` and `chunk_offset` are [num_chunks] int32 on the device: the sequence of each
    chunk, and the place of its first token in that sequence. Tables that were made on the device
    may be longer: an entry with a sequence below 0 is no chunk.
    """

    batch_of_chunk: torch.Tensor
    chunk_offset: torch.Tensor
    num_seqs: int
    num_tokens: int
    highest_slot: int = PAD_SLOT
    """The highest cache index that was given on the host: a layer must have a state for it."""


def prepare_conv_metadata(
    query_start_loc_cpu: HostIntegers,
    device: torch.device,
    cache_indices_cpu: HostIntegers | None = None,
) -> ConvMetadata:
    """Returns one step's metadata for the convolution on `device`, made with one upload and no
    wait. The arguments and errors are those of `plan_conv_metadata`."""
    return upload_and_apply(plan_conv_metadata(query_start_loc_cpu, cache_indices_cpu), device)


def plan_conv_metadata(
    query_start_loc_cpu: HostIntegers, cache_indices_cpu: HostIntegers | None = None
) -> Planned[[], ConvMetadata]:
    """Returns the metadata of a batch's sequences, cut into chunks, before its upload.
    `query_start_loc_cpu` [num_seqs + 1] and `cache_indices_cpu` [num_seqs] are integers on the
    host, equal to those that the layers get on the device.

    Raises ValueError if the starts don't begin at 0 or decrease, if a cache index is below
    PAD_SLOT, or if two sequences with tokens have the same cache index, since each writes its state
    there.
    """
    lengths = sequence_lengths("query_start_loc_cpu", query_start_loc_cpu)
    highest_slot = PAD_SLOT
    if cache_indices_cpu is not None:
        slots = host_integers("cache_indices_cpu", cache_indices_cpu)
        _check_slots(slots, lengths)
        highest_slot = int(slots.max(initial=PAD_SLOT))
    chunks = -(-lengths // CHUNK_TOKENS)
    first_chunks = np.cumsum(chunks) - chunks
    offset = (np.arange(chunks.sum()) - np.repeat(first_chunks, chunks)) * CHUNK_TOKENS
    arrays = {
        "batch_of_chunk": np.repeat(np.arange(len(chunks), dtype=np.int32), chunks),
        "chunk_offset": offset.astype(np.int32),
    }

    def apply(on_device: DeviceArrays) -> ConvMetadata:
        tables = on_device["batch_of_chunk"], on_device["chunk_offset"]
        return ConvMetadata(*tables, len(lengths), int(lengths.sum()), highest_slot)

    return Planned(arrays, apply)


def _check_slots(slots: np.ndarray, lengths: np.ndarray) -> None:
    if len(slots) != len(lengths):
        raise ValueError(f"{len(slots)} cache indices for {len(lengths)} sequences: give each one")
    below = np.flatnonzero(slots < PAD_SLOT)
    if below.size:
        sequence = int(below[0])
        raise ValueError(
            f"sequence {sequence} has cache index {slots[sequence]}: use a slot, or {PAD_SLOT} for "
            "a sequence without one"
        )
    used = np.sort(slots[(lengths > 0) & (slots != PAD_SLOT)])
    shared = used[1:][used[1:] == used[:-1]]
    if shared.size:
        raise ValueError(
            f"cache index {shared[0]} belongs to more than one sequence: each needs a slot of its "
            "own, for it overwrites the state there"
        )
