"""Second kernel of the chunked rule: passes the state through the chunks of its sequence.

A state is [V, K], its rows split among programs, so that it is the left operand of its products and
stays in registers; each tensor that is loaded for a chunk is the right operand of a product.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import launch
from solutions.common.asked import ASKED

from .arguments import SequenceStates
from .chunk_batch import ChunkBatch, ChunkSolution
from .chunk_stages import load_rows, product
from .chunks import FLA_CHUNK_SIZE
from .state_slots import expect_own, tokens_of


@triton.jit(
    do_not_specialize=["num_tokens", "num_chunks", "num_slots"],
    do_not_specialize_on_alignment=[
        "read_scales",
        "write_scales",
        "cu_seqlens",
        "chunk_offsets",
        "state_indices",
        "has_initial_state",
    ],
)
def state_pass_kernel(
    states,  # [num_chunks, HV, V, K]: before each chunk
    written,  # [num_tokens, HV, V]: n
    final_state,  # [num_seqs or num_slots, HV, V, K], each state contiguous
    k,  # [num_tokens, H, K], heads contiguous
    v,  # [num_tokens, HV, V], heads contiguous
    solved,  # [num_tokens, HV, CHUNK]
    read_scales,  # [HV, num_tokens] float32
    write_scales,  # [HV, num_tokens] float32
    chunk_decays,  # [num_chunks, HV] float32
    initial_state,  # like final_state; not read without HAS_INITIAL
    state_indices,  # [num_seqs] int32; not read unless IN_POOL
    has_initial_state,  # [num_seqs] bool; not read without HAS_FLAGS
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_offsets,  # [num_seqs + 1] int64
    num_tokens,
    num_chunks,
    num_slots,
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
    """Carries BLOCK_V rows of one value head's state through the chunks of one sequence, and writes
    the state before each chunk, what each token writes, and the final state."""
    BLOCKS: tl.constexpr = V // BLOCK_V
    sequence = tl.program_id(0) // BLOCKS
    first_value = tl.program_id(0) % BLOCKS * BLOCK_V
    head = tl.program_id(1)
    num_heads = tl.num_programs(1)
    first, end = tokens_of(cu_seqlens, sequence, num_tokens)
    chunk = tl.load(chunk_offsets + sequence)
    value_dim = first_value + tl.arange(0, BLOCK_V)
    row = tl.arange(0, CHUNK)

    in_state = (value_dim * K)[:, None] + tl.arange(0, K)[None, :]
    slot = sequence.to(tl.int64)
    has_slot = sequence >= 0
    if IN_POOL:
        slot = tl.load(state_indices + sequence).to(tl.int64)
        has_slot = (slot >= 0) & (slot < num_slots)
    state = tl.zeros([BLOCK_V, K], tl.float32)
    if HAS_INITIAL:
        goes_on = has_slot
        if HAS_FLAGS:
            goes_on &= tl.load(has_initial_state + sequence) != 0
        initial = initial_state + slot * initial_stride + head * (V * K)
        state = tl.load(initial + in_state, mask=goes_on, other=0.0).to(tl.float32)

    # No further than the table: with another table's offsets all results are wrong, but in their
    # place.
    chunks_here = tl.minimum(tl.cdiv(end - first, CHUNK), (num_chunks - chunk).to(tl.int32))
    chunks_here = tl.where(chunk >= 0, chunks_here, 0)
    for _ in tl.range(0, chunks_here, num_stages=STAGES):
        token = (first + row).to(tl.int64)
        exists = token < end
        in_head = token * num_heads + head
        in_vector = head.to(tl.int64) * num_tokens + token
        keys = load_rows(k, token, k_stride, head // GROUP * K, exists, K)
        values = load_rows(v, token, v_stride, head * V + first_value, exists, BLOCK_V)
        T = load_rows(solved, in_head, CHUNK, 0, exists, CHUNK)
        read_scale = tl.load(read_scales + in_vector, mask=exists, other=0.0)
        write_scale = tl.load(write_scales + in_vector, mask=exists, other=0.0)
        decay = tl.load(chunk_decays + chunk * num_heads + head)

        kept = states + (chunk * num_heads + head) * (V * K) + in_state
        tl.store(kept, state.to(states.dtype.element_ty))
        known = product(state, tl.trans(keys), None, PRECISION, UPCAST) * read_scale[None, :]
        new = product(tl.trans(values), tl.trans(T), None, PRECISION, UPCAST)
        new = product(known, tl.trans(T), new, PRECISION, UPCAST)
        # Stored before the state is updated: the other order takes a tenth longer.
        tl.store(
            written + (in_head * V)[None, :] + value_dim[:, None],
            new.to(written.dtype.element_ty),
            mask=exists[None, :],
        )
        state = product(new * write_scale[None, :], keys, state * decay, PRECISION, UPCAST)
        first += CHUNK
        chunk += 1
    if STORE_FINAL:
        keeps = has_slot
        if IN_POOL:
            keeps &= end > tl.load(cu_seqlens + sequence)
            if ASKED:
                is_first = keeps & (head == 0) & (first_value == 0)
                num_seqs = tl.num_programs(0) // BLOCKS
                own = state_indices + sequence
                expect_own(is_first, slot, own, sequence, 1, 1, cu_seqlens, num_seqs, True)
        final = final_state + slot * final_stride + head * (V * K)
        tl.store(final + in_state, state.to(final_state.dtype.element_ty), mask=keeps)


def pass_states(
    batch: ChunkBatch,
    chunk_offsets: torch.Tensor,
    solution: ChunkSolution,
    states: SequenceStates,
    final_state: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (states before each chunk [NT, HV, V, K], what each token writes [T, HV, V]), both of
    the products' dtype. Fills `final_state` if it is given."""
    tokens, heads, value_size = batch.v.shape[1:]
    key_size = batch.k.shape[3]
    before = batch.empty(batch.num_chunks, heads, value_size, key_size)
    written = batch.empty(tokens, heads, value_size)
    if not batch.num_seqs:
        return before, written
    # A tensor that is not given is not read: any other stands for it.
    initial = written if states.initial is None else states.initial
    launch(
        state_pass_kernel,
        (batch.num_seqs * (value_size // batch.block_v), heads),
        before,
        written,
        written if final_state is None else final_state,
        batch.k,
        batch.v,
        solution.solved,
        solution.read_scales,
        solution.write_scales,
        solution.chunk_decays,
        initial,
        batch.cu_seqlens if states.slots is None else states.slots,
        batch.cu_seqlens if states.has_initial is None else states.has_initial,
        batch.cu_seqlens,
        chunk_offsets,
        tokens,
        batch.num_chunks,
        len(initial),
        batch.k.stride(1),
        batch.v.stride(1),
        initial.stride(0),
        written.stride(0) if final_state is None else final_state.stride(0),
        **batch.constants,
        HAS_INITIAL=states.initial is not None,
        HAS_FLAGS=states.has_initial is not None,
        IN_POOL=states.slots is not None,
        STORE_FINAL=final_state is not None,
        V=value_size,
        BLOCK_V=batch.block_v,
        STAGES=batch.stages,
        num_warps=4,
        work=lambda: batch.work(
            2.0 * FLA_CHUNK_SIZE * value_size * 2 * (key_size + FLA_CHUNK_SIZE),
            batch.k,
            batch.v,
            before,
            written,
            *solution,
            *(tensor for tensor in (states.initial, final_state) if tensor is not None),
        ),
    )
    return before, written
