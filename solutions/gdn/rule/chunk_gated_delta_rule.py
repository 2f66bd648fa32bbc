"""The forward of the chunked gated delta rule: checks its arguments and launches three kernels."""

from __future__ import annotations

import torch

from .arguments import (
    SequenceStates,
    check_chunked_sizes,
    check_sequences,
    check_tokens,
    sequences_of,
)
from .chunk_batch import ChunkBatch
from .pass_states import pass_states
from .read_outputs import read_outputs
from .solve_chunks import solve_chunks


def chunk_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | None = None,
    chunk_indices: torch.Tensor | None = None,
    chunk_offsets: torch.Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    state_indices: torch.Tensor | None = None,
    has_initial_state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Returns (o [1, T, HV, V] like `v`, final state or None) of N sequences, in three launches and
    without a wait (vLLM #38361).

    q, k               [1, T, H, K], bfloat16, float16 or float32, the heads of a token contiguous;
    v                  [1, T, HV, V]      K and V powers of two from 16 to 128, HV a multiple of H
    g                  [1, T, HV] float32: the logarithm of the decay, at most 0
    beta               [1, T, HV], bfloat16, float16 or float32
    scale              factor of the queries, by default K ** -0.5
    initial_state      [N, HV, V, K] float32 or bfloat16, by default zeros; the final state is
                       [N, HV, V, K] float32
    cu_seqlens         [N + 1] int32: where each sequence starts, then the end of the last one;
                       None for one sequence of all tokens
    chunk_indices,     tables of these cu_seqlens, on the device (`plan_chunk_tables`); without them
    chunk_offsets      one more launch makes them
    state_indices      [N] int32: `initial_state` is then a pool [num_slots, HV, V, K], in which
                       sequence n starts from slot state_indices[n] and, with output_final_state,
                       overwrites it; the pool is returned. A sequence whose slot is < 0 or beyond
                       the pool starts from zeros and writes no state; a sequence without tokens
                       leaves its slot alone. No two sequences with tokens may share a slot: on sim
                       that is a RuntimeError, on a GPU one of the two states is lost.
    has_initial_state  [N] bool: a sequence starts from zeros if it is False

    Raises ValueError, before any launch, for shapes, strides and dtypes that don't fit, and for
    tables that can't belong to these cu_seqlens.
    """
    check_tokens(q, k, v, g, beta)
    check_chunked_sizes(q, v)
    given = (q, cu_seqlens, chunk_indices, chunk_offsets)
    num_seqs, state_shape = check_sequences(*given), (*v.shape[2:], q.shape[3])
    states = SequenceStates(initial_state, state_indices, has_initial_state)
    states.check(num_seqs, state_shape, q.device)
    cu_seqlens, tables = sequences_of(*given)
    batch = ChunkBatch(q, k, v, cu_seqlens, tables.chunk_indices, use_qk_l2norm_in_kernel)
    scale = q.shape[3] ** -0.5 if scale is None else scale
    solution = solve_chunks(batch, g, beta, scale)
    final_state = None
    if output_final_state:
        final_state = states.room_for_final(num_seqs, state_shape, q.device)
    segments = pass_states(batch, tables.chunk_offsets, solution, states)
    o = read_outputs(batch, tables.chunk_offsets, solution, segments, states, final_state)
    return o, final_state
