"""Splits long sequences into segments of chunks, so that one sequence keeps every SM busy.

The chunks of a segment follow one another, but all segments run at once. So each must know the
state that enters it before the segments before it are done. A state S [V, K] that enters a segment
leaves it as

    S M + L,  M [K, K] the segment's transition, L [V, K] what leaves it if zeros enter.

`state_pass_kernel` computes L and M of every segment that another one follows, and
`chunk_output_kernel` begins a segment by joining those before it. If a segment's gates decay what
enters it to nothing, M is 0: then no program computes it, and L begins as late as the gates allow.
What is lost on the way is lost for good: a NaN in the state ends there as well.

Every segment but the first of its sequence has a place in the buffers, its window: windows are as
long as segments, and a chunk table's window holds the beginning of at most one such segment.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .state_slots import tokens_of

SHORTEST_SEGMENT = 8
"""Fewest chunks of a segment: to join shorter ones would take longer than to pass through them."""
PROGRAMS = 132
"""Number of programs that an H100 or H200 runs at once: one on each SM, as the buffers of the third
kernel fill the shared memory."""
NEGLIGIBLE = {True: -17.4, False: -87.0}
"""The logarithm of a factor below which what enters a segment is left out at its end, by whether
products run on tensor cores. exp(-17.4) is 2^-25, which changes no bit of a float32 that is as
large as what entered, and exp(-87) is float32's smallest normal number."""


def segment_length(num_chunks: int, num_heads: int) -> int:
    """Returns the number of chunks of a segment: with one program for each segment and head, the
    programs that work on `num_chunks` chunks just fill the SMs."""
    return max(SHORTEST_SEGMENT, -(-num_chunks // max(PROGRAMS // num_heads, 1)))


def most_windows(num_chunks: int, segment: int) -> int:
    """Returns how many segments of `segment` chunks can begin inside a sequence."""
    return max(-(-num_chunks // segment) - 1, 0)


@triton.jit
def later_segment(chunk_indices, window, num_chunks, segment):
    """Returns (sequence, first chunk in this sequence) of the segment that begins in this window
    of the chunk table, if the sequence has so many chunks; the sequence is -1 if no segment but
    the first of a sequence can begin there."""
    row = (window + 1) * segment
    there = row < num_chunks
    sequence = tl.load(chunk_indices + 2 * row, mask=there, other=-1)
    in_sequence = tl.load(chunk_indices + 2 * row + 1, mask=there, other=0)
    begin = (in_sequence + segment - 1) // segment * segment
    return tl.where(in_sequence > 0, sequence, -1), begin


@triton.jit
def chunks_of(cu_seqlens, chunk_offsets, sequence, num_tokens, num_chunks, CHUNK: tl.constexpr):
    """Returns (first token, index after the last token, row of the first chunk in the table, number
    of chunks) of a sequence. No chunk is outside the table: with another table's offsets all
    results are wrong, but in their place."""
    first, end = tokens_of(cu_seqlens, sequence, num_tokens)
    row = tl.load(chunk_offsets + sequence)
    rows = tl.minimum(tl.load(chunk_offsets + sequence + 1), num_chunks) - row
    count = tl.minimum(tl.cdiv(end - first, CHUNK), rows.to(tl.int32))
    return first, end, row, tl.where(row >= 0, count, 0)


@triton.jit
def window_of(row, segment):
    """Returns the window, int64, of a segment that begins at this row of the chunk table."""
    return row // segment - 1


@triton.jit
def slot_of_sequence(state_indices, sequence, num_slots, IN_POOL: tl.constexpr):
    """Returns (slot of a sequence's state, int64, and True if there is such a slot)."""
    slot = sequence.to(tl.int64)
    has_slot = slot >= 0
    if IN_POOL:
        slot = tl.load(state_indices + sequence).to(tl.int64)
        has_slot = (slot >= 0) & (slot < num_slots)
    return slot, has_slot


@triton.jit
def initial_rows(
    initial_state,
    state_indices,
    has_initial_state,
    sequence,
    in_state,
    num_slots,
    stride,
    HAS_FLAGS: tl.constexpr,
    IN_POOL: tl.constexpr,
):
    """Returns float32 rows of the state that a sequence starts from: the numbers at `in_state` of
    its slot, or zeros."""
    slot, goes_on = slot_of_sequence(state_indices, sequence, num_slots, IN_POOL)
    if HAS_FLAGS:
        goes_on &= tl.load(has_initial_state + sequence) != 0
    return tl.load(initial_state + slot * stride + in_state, mask=goes_on, other=0.0).to(tl.float32)


@triton.jit
def last_that_count(bounds, head, num_heads, begin, end, NEGLIGIBLE: tl.constexpr):
    """Returns (chunk, reaches): the state after chunk `end` - 1 can be computed from zeros before
    this chunk, and `reaches` is True if what enters chunk `begin` counts too. `bounds` are a
    ChunkSolution's."""
    BLOCK: tl.constexpr = 32
    chunk = end
    reaches = end > begin
    total = 0.0
    while (chunk > begin) & reaches:
        row = chunk - BLOCK + tl.arange(0, BLOCK)
        exists = row >= begin
        bound = tl.load(bounds + row * num_heads + head, mask=exists, other=0.0)
        enough = exists & (tl.cumsum(bound, 0, reverse=True) + total < NEGLIGIBLE)
        last = tl.max(tl.where(enough, row, -1), 0)
        reaches = last < 0
        chunk = tl.where(reaches, tl.maximum(chunk - BLOCK, begin), last)
        total += tl.sum(bound, 0)
    return chunk, reaches
