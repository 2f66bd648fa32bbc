"""Second kernel of the chunked rule: what each segment does to the state that enters it.

A state is [V, K], its rows split among programs, so that it is the left operand of its products and
stays in registers; each tensor that is loaded for a chunk is the right operand of a product. A row
of the transition M is what becomes of a row of the identity if no values are written, so the same
program computes M.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from .arguments import SequenceStates
from .chunk_batch import ChunkBatch, ChunkSolution
from .chunk_stages import after_chunk, load_rows, written_by
from .chunks import FLA_CHUNK_SIZE
from .segments import (
    NEGLIGIBLE,
    chunks_of,
    initial_rows,
    last_that_count,
    later_segment,
    window_of,
)


@triton.jit(
    do_not_specialize=["num_tokens", "num_chunks", "num_slots", "num_windows", "segment"],
    do_not_specialize_on_alignment=[
        "reaches_end",
        "read_scales",
        "write_scales",
        "chunk_decays",
        "chunk_bounds",
        "state_indices",
        "has_initial_state",
        "cu_seqlens",
        "chunk_indices",
        "chunk_offsets",
    ],
)
def state_pass_kernel(
    entering,  # [2 * num_windows, HV, V, K] float32
    transitions,  # [num_windows, HV, K, K] float32: M, transposed
    reaches_end,  # [num_windows, HV] int32
    k,  # [num_tokens, H, K], heads contiguous
    v,  # [num_tokens, HV, V], heads contiguous
    solved,  # [num_tokens, HV, CHUNK]
    read_scales,  # [HV, num_tokens] float32
    write_scales,  # [HV, num_tokens] float32
    chunk_decays,  # [num_chunks, HV] float32
    chunk_bounds,  # [num_chunks, HV] float32
    initial_state,  # [num_seqs or num_slots, HV, V, K]; not read without HAS_INITIAL
    state_indices,  # [num_seqs] int32; not read unless IN_POOL
    has_initial_state,  # [num_seqs] bool; not read without HAS_FLAGS
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_indices,  # [num_chunks, 2] int32
    chunk_offsets,  # [num_seqs + 1] int64
    num_tokens,
    num_chunks,
    num_slots,
    num_windows,
    segment,
    k_stride,
    v_stride,
    initial_stride,
    GROUP: tl.constexpr,
    HAS_INITIAL: tl.constexpr,
    HAS_FLAGS: tl.constexpr,
    IN_POOL: tl.constexpr,
    CHUNK: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
    NEGLIGIBLE: tl.constexpr,
    PRECISION: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Computes ROWS rows of L or of M, of one value head, for the segment before the one that
    begins in this window."""
    PARTS: tl.constexpr = (V + K) // ROWS
    window = tl.program_id(0) // PARTS
    first_row = tl.program_id(0) % PARTS * ROWS
    head = tl.program_id(1)
    num_heads = tl.num_programs(1)
    sequence, begin = later_segment(chunk_indices, window, num_chunks, segment)
    if sequence < 0:
        return
    first, end, table_row, chunks = chunks_of(
        cu_seqlens, chunk_offsets, sequence, num_tokens, num_chunks, CHUNK
    )
    if begin >= chunks:
        return
    stop = table_row + begin
    chunk, reaches = last_that_count(
        chunk_bounds, head, num_heads, stop - segment, stop, NEGLIGIBLE
    )
    place = window_of(stop, segment) * num_heads + head
    is_first = begin == segment
    of_values = first_row < V
    if (not of_values) & (is_first | (not reaches)):
        return
    if first_row == 0:
        tl.store(reaches_end + place, reaches.to(tl.int32))

    at = first_row - tl.where(of_values, 0, V) + tl.arange(0, ROWS)
    key_dim = tl.arange(0, K)
    in_state = (at * K)[:, None] + key_dim[None, :]
    state = tl.where((at[:, None] == key_dim[None, :]) & (not of_values), 1.0, 0.0)
    if HAS_INITIAL:  # noqa: SIM102  (Triton takes this branch at compile time)
        if of_values & is_first:
            in_slot = head * (V * K) + in_state
            state = initial_rows(
                initial_state,
                state_indices,
                has_initial_state,
                sequence,
                in_slot,
                num_slots,
                initial_stride,
                HAS_FLAGS,
                IN_POOL,
            )
            # A pool's slot may be overwritten before all segments have read it.
            copy = place + num_windows.to(tl.int64) * num_heads
            tl.store(entering + copy * (V * K) + in_state, state)
            state = tl.where(reaches, state, 0.0)
    first += ((chunk - table_row) * CHUNK).to(tl.int32)
    for _ in tl.range(0, (stop - chunk).to(tl.int32), num_stages=STAGES):
        token = (first + tl.arange(0, CHUNK)).to(tl.int64)
        exists = token < end
        in_vector = head.to(tl.int64) * num_tokens + token
        keys = load_rows(k, token, k_stride, head // GROUP * K, exists, K)
        in_values = head * V + first_row
        values = load_rows(v, token, v_stride, in_values, exists & of_values, ROWS)
        T = load_rows(solved, token * num_heads + head, CHUNK, 0, exists, CHUNK)
        read_scale = tl.load(read_scales + in_vector, mask=exists, other=0.0)
        write_scale = tl.load(write_scales + in_vector, mask=exists, other=0.0)
        decay = tl.load(chunk_decays + chunk * num_heads + head)
        new = written_by(state, keys, values, T, read_scale, PRECISION, UPCAST)
        state = after_chunk(state, new, keys, write_scale, decay, PRECISION, UPCAST)
        first += CHUNK
        chunk += 1
    if of_values:
        tl.store(entering + place * (V * K) + in_state, state)
    else:
        transposed = at[:, None] + (key_dim * K)[None, :]
        tl.store(transitions + place * (K * K) + transposed, state)


class Segments(NamedTuple):
    """Results of the second kernel, by the window in which a segment begins."""

    entering: torch.Tensor
    """[2 * W, HV, V, K] float32: L of the segment before the window's, or the state that leaves it
    if that is the first of its sequence; then, W places on, the state that the sequence starts
    from, for each sequence's first window."""
    transitions: torch.Tensor
    """[W, HV, K, K] float32: M of the segment before the window's, transposed."""
    reaches_end: torch.Tensor
    """[W, HV] int32: 0 if nothing that enters the segment before the window's reaches its end."""


def pass_states(
    batch: ChunkBatch,
    chunk_offsets: torch.Tensor,
    solution: ChunkSolution,
    states: SequenceStates,
) -> Segments:
    """Returns what the third kernel needs to know of the segments before each segment. One launch,
    even if no sequence is longer than a segment: the host doesn't know."""
    heads, value_size = batch.v.shape[2:]
    key_size = batch.k.shape[3]
    windows = batch.num_windows
    segments = Segments(
        batch.empty(2 * windows, heads, value_size, key_size, dtype=torch.float32),
        batch.empty(windows, heads, key_size, key_size, dtype=torch.float32),
        batch.empty(windows, heads, dtype=torch.int32),
    )
    if not batch.num_chunks:
        return segments
    # A tensor that is not given is not read: any other stands for it.
    initial, *tables = states.or_instead(segments.entering, batch.cu_seqlens)
    launch(
        state_pass_kernel,
        (windows * ((value_size + key_size) // batch.pass_rows), heads),
        *segments,
        batch.k,
        batch.v,
        solution.solved,
        solution.read_scales,
        solution.write_scales,
        solution.chunk_decays,
        solution.chunk_bounds,
        initial,
        *tables,
        batch.cu_seqlens,
        batch.chunk_indices,
        chunk_offsets,
        batch.num_tokens,
        batch.num_chunks,
        len(initial),
        windows,
        batch.segment,
        batch.k.stride(1),
        batch.v.stride(1),
        initial.stride(0),
        **batch.constants,
        **states.constants,
        V=value_size,
        ROWS=batch.pass_rows,
        STAGES=batch.stages,
        NEGLIGIBLE=NEGLIGIBLE[batch.on_tensor_cores],
        num_warps=4,
        work=lambda: _work(batch),
    )
    return segments


def _work(batch: ChunkBatch) -> Work:
    """Returns the work of the second kernel, for sim's cost model: each segment that another one
    must follow, whatever the lengths are, is read and multiplied once. Transitions cost as much
    again, but only where gates let states through."""
    heads, value_size = batch.v.shape[2:]
    key_size = batch.k.shape[3]
    segments = max(-(-batch.num_chunks // batch.segment) - batch.num_seqs, 0)
    tokens = min(segments * batch.segment * FLA_CHUNK_SIZE, batch.num_tokens)
    item = batch.k.element_size()
    return Work(
        flops=4.0 * tokens * heads * value_size * (key_size + FLA_CHUNK_SIZE),
        bytes=tokens * heads * (key_size + value_size + FLA_CHUNK_SIZE) * item,
        tensor_cores=batch.on_tensor_cores,
    )
