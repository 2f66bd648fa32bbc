"""Third kernel of the chunked rule: passes the states through the chunks, and reads the outputs."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import launch
from solutions.common.asked import ASKED

from .arguments import SequenceStates
from .chunk_batch import ChunkBatch, ChunkSolution, warps_for
from .chunk_stages import after_chunk, load_rows, product, written_by
from .chunks import FLA_CHUNK_SIZE
from .pass_states import Segments
from .segments import chunks_of, initial_rows, later_segment, slot_of_sequence, window_of
from .state_slots import expect_own


@triton.jit
def joined_segments(
    entering,
    transitions,
    reaches_end,
    row,
    begin,
    segment,
    head,
    num_heads,
    in_state,
    K: tl.constexpr,
    V: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Returns rows of the state that enters the segment at chunk `begin` > 0 of the sequence whose
    chunks are in the table from `row` on: goes back to where nothing enters that counts, and from
    there forward through the transitions."""
    back = tl.zeros([], tl.int32)
    while (begin - back > segment) & (
        tl.load(reaches_end + window_of(row + begin - back, segment) * num_heads + head) != 0
    ):
        back += segment
    place = window_of(row + begin - back, segment) * num_heads + head
    state = tl.load(entering + place * (V * K) + in_state)
    in_transition = (tl.arange(0, K) * K)[:, None] + tl.arange(0, K)[None, :]
    while back > 0:
        back -= segment
        place = window_of(row + begin - back, segment) * num_heads + head
        M = tl.load(transitions + place * (K * K) + in_transition)
        left = tl.load(entering + place * (V * K) + in_state)
        state = tl.dot(state, tl.trans(M), left, input_precision=PRECISION)
    return state


@triton.jit(
    do_not_specialize=[
        "num_tokens",
        "num_chunks",
        "num_slots",
        "num_seqs",
        "num_windows",
        "segment",
    ],
    do_not_specialize_on_alignment=[
        "reaches_end",
        "query_scales",
        "read_scales",
        "write_scales",
        "chunk_decays",
        "state_indices",
        "has_initial_state",
        "cu_seqlens",
        "chunk_indices",
        "chunk_offsets",
    ],
)
def chunk_output_kernel(
    o,  # [num_tokens, HV, V]
    final_state,  # [num_seqs or num_slots, HV, V, K], each state contiguous
    entering,  # [2 * num_windows, HV, V, K] float32
    transitions,  # [num_windows, HV, K, K] float32
    reaches_end,  # [num_windows, HV] int32
    q,  # [num_tokens, H, K], heads contiguous
    k,  # [num_tokens, H, K], heads contiguous
    v,  # [num_tokens, HV, V], heads contiguous
    solved,  # [num_tokens, HV, CHUNK]
    scores,  # [num_tokens, HV, CHUNK]
    query_scales,  # [HV, num_tokens] float32
    read_scales,  # [HV, num_tokens] float32
    write_scales,  # [HV, num_tokens] float32
    chunk_decays,  # [num_chunks, HV] float32
    initial_state,  # like final_state; not read without HAS_INITIAL
    state_indices,  # [num_seqs] int32; not read unless IN_POOL
    has_initial_state,  # [num_seqs] bool; not read without HAS_FLAGS
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_indices,  # [num_chunks, 2] int32
    chunk_offsets,  # [num_seqs + 1] int64
    num_tokens,
    num_chunks,
    num_slots,
    num_seqs,
    num_windows,
    segment,
    q_stride,
    k_stride,
    v_stride,
    initial_stride,
    final_stride,
    GROUP: tl.constexpr,
    HAS_INITIAL: tl.constexpr,
    HAS_FLAGS: tl.constexpr,
    IN_POOL: tl.constexpr,
    STORE_FINAL: tl.constexpr,
    CHUNK: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_V: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Carries BLOCK_V rows of one value head's state through the chunks of one segment, and writes
    the outputs and, of a sequence's last segment, the final state."""
    BLOCKS: tl.constexpr = V // BLOCK_V
    program = tl.program_id(0) // BLOCKS
    first_value = tl.program_id(0) % BLOCKS * BLOCK_V
    head = tl.program_id(1)
    num_heads = tl.num_programs(1)
    sequence = program
    begin = tl.zeros([], tl.int32)
    if program >= num_seqs:
        sequence, begin = later_segment(chunk_indices, program - num_seqs, num_chunks, segment)
    if sequence < 0:
        return
    first, end, row, chunks = chunks_of(
        cu_seqlens, chunk_offsets, sequence, num_tokens, num_chunks, CHUNK
    )
    # The first kernel solved what the table names, and nothing else.
    named = tl.load(chunk_indices + 2 * row, mask=chunks > 0, other=-1)
    chunks = tl.where(named == sequence, chunks, 0)
    is_later = begin > 0
    if is_later & (begin >= chunks):
        return
    value_dim = first_value + tl.arange(0, BLOCK_V)
    in_state = (value_dim * K)[:, None] + tl.arange(0, K)[None, :]

    state = tl.zeros([BLOCK_V, K], tl.float32)
    if is_later:
        state = joined_segments(
            entering,
            transitions,
            reaches_end,
            row,
            begin,
            segment,
            head,
            num_heads,
            in_state,
            K,
            V,
            PRECISION,
        )
    elif HAS_INITIAL:
        if chunks > segment:
            copy = (window_of(row + segment, segment) + num_windows) * num_heads + head
            state = tl.load(entering + copy * (V * K) + in_state)
        else:
            state = initial_rows(
                initial_state,
                state_indices,
                has_initial_state,
                sequence,
                head * (V * K) + in_state,
                num_slots,
                initial_stride,
                HAS_FLAGS,
                IN_POOL,
            )

    chunk = row + begin
    first += begin * CHUNK
    for _ in tl.range(0, tl.minimum(chunks - begin, segment), num_stages=STAGES):
        token = (first + tl.arange(0, CHUNK)).to(tl.int64)
        exists = token < end
        in_head = token * num_heads + head
        in_vector = head.to(tl.int64) * num_tokens + token
        keys = load_rows(k, token, k_stride, head // GROUP * K, exists, K)
        values = load_rows(v, token, v_stride, head * V + first_value, exists, BLOCK_V)
        T = load_rows(solved, in_head, CHUNK, 0, exists, CHUNK)
        P = load_rows(scores, in_head, CHUNK, 0, exists, CHUNK)
        queries = load_rows(q, token, q_stride, head // GROUP * K, exists, K)
        read_scale = tl.load(read_scales + in_vector, mask=exists, other=0.0)
        write_scale = tl.load(write_scales + in_vector, mask=exists, other=0.0)
        query_scale = tl.load(query_scales + in_vector, mask=exists, other=0.0)
        decay = tl.load(chunk_decays + chunk * num_heads + head)

        new = written_by(state, keys, values, T, read_scale, PRECISION, UPCAST)
        out = product(state, tl.trans(queries), None, PRECISION, UPCAST) * query_scale[None, :]
        out = product(new, tl.trans(P), out, PRECISION, UPCAST)
        place = (in_head * V)[None, :] + value_dim[:, None]
        tl.store(o + place, out.to(o.dtype.element_ty), mask=exists[None, :])
        state = after_chunk(state, new, keys, write_scale, decay, PRECISION, UPCAST)
        first += CHUNK
        chunk += 1
    # Triton takes the outer branch at compile time: without it, it must compile what is inside.
    if STORE_FINAL:  # noqa: SIM102
        if begin + segment >= chunks:
            slot, keeps = slot_of_sequence(state_indices, sequence, num_slots, IN_POOL)
            if IN_POOL:
                keeps &= end > tl.load(cu_seqlens + sequence)
                if ASKED:
                    is_asked = keeps & (head == 0) & (first_value == 0)
                    own = state_indices + sequence
                    expect_own(is_asked, slot, own, sequence, 1, 1, cu_seqlens, num_seqs, True)
            final = final_state + slot * final_stride + head * (V * K)
            tl.store(final + in_state, state.to(final_state.dtype.element_ty), mask=keeps)


def read_outputs(
    batch: ChunkBatch,
    chunk_offsets: torch.Tensor,
    solution: ChunkSolution,
    segments: Segments,
    states: SequenceStates,
    final_state: torch.Tensor | None,
) -> torch.Tensor:
    """Returns the outputs of all tokens, [1, T, HV, V], contiguous and of the queries' dtype. Fills
    `final_state` if it is given."""
    o = batch.empty(*batch.v.shape, dtype=batch.q.dtype)
    if not batch.num_seqs:
        return o
    heads, value_size = batch.v.shape[2:]
    key_size = batch.k.shape[3]
    # A tensor that is not given is not read or written: any other stands for it.
    initial, *tables = states.or_instead(segments.entering, batch.cu_seqlens)
    final = segments.entering if final_state is None else final_state
    launch(
        chunk_output_kernel,
        ((batch.num_seqs + batch.num_windows) * (value_size // batch.block_v), heads),
        o,
        final,
        *segments,
        batch.q,
        batch.k,
        batch.v,
        solution.solved,
        solution.scores,
        solution.query_scales,
        solution.read_scales,
        solution.write_scales,
        solution.chunk_decays,
        initial,
        *tables,
        batch.cu_seqlens,
        batch.chunk_indices,
        chunk_offsets,
        batch.num_tokens,
        batch.num_chunks,
        len(initial),
        batch.num_seqs,
        batch.num_windows,
        batch.segment,
        batch.q.stride(1),
        batch.k.stride(1),
        batch.v.stride(1),
        initial.stride(0),
        final.stride(0),
        **batch.constants,
        **states.constants,
        STORE_FINAL=final_state is not None,
        V=value_size,
        BLOCK_V=batch.block_v,
        STAGES=batch.output_stages,
        num_warps=warps_for(batch.block_v),
        work=lambda: batch.work(
            2.0 * FLA_CHUNK_SIZE * value_size * 3 * (key_size + FLA_CHUNK_SIZE),
            o,
            batch.q,
            batch.k,
            batch.v,
            *solution,
            *(tensor for tensor in (states.initial, final_state) if tensor is not None),
        ),
    )
    return o
