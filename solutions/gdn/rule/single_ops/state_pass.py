"""Fifth single op: passes the state through the chunks of its sequence, and each token writes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from ..arguments import SequenceStates, check_chunked_sizes, check_sequences, sequences_of
from ..chunk_batch import product_constants, product_type
from ..chunk_stages import load_rows, product
from ..chunks import FLA_CHUNK_SIZE
from ..state_slots import tokens_of
from .operands import FLOAT32, check_groups, check_operand

BLOCK_V = 32
"""Number of values of one program, whose part of the state takes [BLOCK_V, K] numbers in
registers."""
STAGES = 2
"""Number of chunks in shared memory: in float32 they fill half of an A100's."""


@triton.jit(
    do_not_specialize=["num_tokens", "num_chunks"],
    do_not_specialize_on_alignment=["g", "cu_seqlens", "chunk_offsets"],
)
def chunk_states_kernel(
    h,  # [num_chunks, HV, V, K]: before each chunk
    v_new,  # [num_tokens, HV, V]
    final_state,  # [num_seqs, HV, V, K] float32; not written without STORE_FINAL
    k,  # [num_tokens, H, K], heads contiguous
    w,  # [num_tokens, HV, K]
    u,  # [num_tokens, HV, V]
    g,  # [num_tokens, HV] float32: running sums inside the chunk
    initial_state,  # [num_seqs, HV, V, K], each contiguous; not read without HAS_INITIAL
    cu_seqlens,  # [num_seqs + 1] int32
    chunk_offsets,  # [num_seqs + 1] int64
    num_tokens,
    num_chunks,
    k_stride,
    initial_stride,
    GROUP: tl.constexpr,
    HAS_INITIAL: tl.constexpr,
    STORE_FINAL: tl.constexpr,
    CHUNK: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_V: tl.constexpr,
    PRECISION: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Carries BLOCK_V rows of one value head's state through the chunks of one sequence, and writes
    the state before each chunk, what each token writes, and the final state."""
    BLOCKS: tl.constexpr = V // BLOCK_V
    sequence = (tl.program_id(0) // BLOCKS).to(tl.int64)
    first_value = tl.program_id(0) % BLOCKS * BLOCK_V
    head = tl.program_id(1)
    num_heads = tl.num_programs(1)
    first, end = tokens_of(cu_seqlens, sequence, num_tokens)
    chunk = tl.load(chunk_offsets + sequence)
    row = tl.arange(0, CHUNK)
    value_dim = first_value + tl.arange(0, BLOCK_V)
    in_head_state = (value_dim * K)[:, None] + tl.arange(0, K)[None, :]

    state = tl.zeros([BLOCK_V, K], tl.float32)
    if HAS_INITIAL:
        initial = initial_state + sequence * initial_stride + head * (V * K)
        state = tl.load(initial + in_head_state).to(tl.float32)
    chunks_here = tl.minimum(tl.cdiv(end - first, CHUNK), (num_chunks - chunk).to(tl.int32))
    for _ in range(tl.where(chunk >= 0, chunks_here, 0)):
        token = (first + row).to(tl.int64)
        exists = token < end
        in_head = token * num_heads + head
        keys = load_rows(k, token, k_stride, head // GROUP * K, exists, K)
        W = load_rows(w, in_head, K, 0, exists, K)
        values = load_rows(u, in_head, V, first_value, exists, BLOCK_V).to(tl.float32)
        decay = tl.load(g + in_head, mask=exists, other=0.0)
        last = tl.minimum(end - first, CHUNK) - 1
        decay_of_chunk = tl.load(g + (first + last).to(tl.int64) * num_heads + head)

        before = h + (chunk * num_heads + head) * (V * K) + in_head_state
        tl.store(before, state.to(h.dtype.element_ty))
        new = tl.trans(values) - product(state, tl.trans(W), None, PRECISION, UPCAST)
        tl.store(
            v_new + (in_head * V)[None, :] + value_dim[:, None],
            new.to(v_new.dtype.element_ty),
            mask=exists[None, :],
        )
        kept = tl.where(exists, tl.exp(decay_of_chunk - decay), 0.0)
        state = state * tl.exp(decay_of_chunk)
        state = product(new * kept[None, :], keys, state, PRECISION, UPCAST)
        first += CHUNK
        chunk += 1
    if STORE_FINAL:
        final = final_state + (sequence * num_heads + head) * (V * K)
        tl.store(final + in_head_state, state)


def chunk_gated_delta_rule_fwd_h(
    k: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    g: torch.Tensor,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | None = None,
    chunk_indices: torch.Tensor | None = None,
    chunk_offsets: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Returns three tensors (vLLM #38361):

    h              [1, NT, HV, V, K], the state before each chunk, where NT is the number of rows of
                   the table; a row (-1, -1) has no state
    v_new          [1, T, HV, V], what each token writes
    final state    [N, HV, V, K] float32, or None

    `h` and `v_new` are of the products' dtype. The arguments:

    k              [1, T, H, K], normalised, the heads of a token contiguous
    w, u           [1, T, HV, K] and [1, T, HV, V], contiguous: from `recompute_w_u_fwd`
    g              [1, T, HV] float32, contiguous: from `chunk_local_cumsum`
    initial_state  [N, HV, V, K] float32 or bfloat16, by default zeros
    chunk_offsets  [N + 1] int64: of the same cu_seqlens as chunk_indices; both or none
    cu_seqlens, chunk_indices as in `chunk_local_cumsum`; so are the errors
    """
    check_operand("k", k, (1, "T", "H", "K"), k.device, dense_from=2)
    _, num_tokens, num_heads, key_size = k.shape
    check_operand("u", u, (1, num_tokens, "HV", "V"), k.device)
    check_chunked_sizes(k, u)
    num_value_heads, value_size = u.shape[2:]
    check_groups(num_heads, num_value_heads)
    gates = (1, num_tokens, num_value_heads)
    check_operand("w", w, (*gates, key_size), k.device, (u.dtype,))
    check_operand("g", g, gates, k.device, FLOAT32)
    given = (k, cu_seqlens, chunk_indices, chunk_offsets)
    num_seqs = check_sequences(*given, needs_offsets=True)
    states, state_shape = SequenceStates(initial_state, None, None), (*u.shape[2:], key_size)
    states.check(num_seqs, state_shape, k.device)
    starts, tables = sequences_of(*given)
    num_chunks, dtype = len(tables.chunk_indices), product_type(k.dtype)
    h = torch.empty(1, num_chunks, *state_shape, dtype=dtype, device=k.device)
    v_new = torch.empty_like(u, dtype=dtype)
    final_state = None
    if output_final_state:
        final_state = states.room_for_final(num_seqs, state_shape, k.device)
    block_v = min(BLOCK_V, value_size)
    launch(
        chunk_states_kernel,
        (num_seqs * (value_size // block_v), num_value_heads),
        h,
        v_new,
        v_new if final_state is None else final_state,
        k,
        w,
        u,
        g,
        v_new if initial_state is None else initial_state,
        starts,
        tables.chunk_offsets,
        num_tokens,
        num_chunks,
        k.stride(1),
        0 if initial_state is None else initial_state.stride(0),
        GROUP=num_value_heads // num_heads,
        HAS_INITIAL=initial_state is not None,
        STORE_FINAL=output_final_state,
        CHUNK=FLA_CHUNK_SIZE,
        K=key_size,
        V=value_size,
        BLOCK_V=block_v,
        **product_constants(k.dtype),
        num_warps=4,
        num_stages=STAGES,
        work=lambda: Work(
            flops=4.0 * FLA_CHUNK_SIZE * key_size * value_size * num_chunks * num_value_heads,
            tensor_cores=k.dtype != torch.float32,
        ),
    )
    return h, v_new, final_state
