"""The three launches of the chunked rule, in their order."""

from __future__ import annotations

import torch

from debubble.accelerator import launch

from ..chunk_tables import FLA_CHUNK_SIZE
from .chunk_batch import Batch, ChunkSolution
from .chunk_stages import inverse_type
from .pass_states import state_pass_kernel
from .read_outputs import chunk_output_kernel
from .sequence_states import SequenceStates
from .solve_chunks import chunk_solve_kernel

MOST_REGISTERS = 168
"""Of a thread that solves a chunk, so that an SM holds three blocks. Measured on an H200: 47 us
instead of 55 us with the 174 that the compiler would take."""


def solve_chunks(batch: Batch, g: torch.Tensor, beta: torch.Tensor) -> ChunkSolution:
    heads, tokens = batch.num_value_heads, batch.num_tokens
    solved = batch.empty(tokens, heads, FLA_CHUNK_SIZE)
    decays, key_norms, read_scales, write_scales = batch.empty(
        4, heads, tokens, dtype=torch.float32
    )
    chunk_decays = batch.empty(batch.num_chunks, heads, dtype=torch.float32)
    solution = ChunkSolution(solved, decays, key_norms, read_scales, write_scales, chunk_decays)
    if not batch.num_chunks:
        return solution
    key_size = batch.k.shape[3]
    launch(
        chunk_solve_kernel,
        (batch.num_chunks, heads),
        *solution,
        batch.k,
        g,
        beta,
        batch.cu_seqlens,
        batch.chunk_indices,
        tokens,
        batch.k.stride(1),
        g.stride(1),
        beta.stride(1),
        **batch.constants,
        NORMALIZE=batch.normalize,
        KIND=inverse_type(batch.q.dtype),
        num_warps=4,
        maxnreg=MOST_REGISTERS,
        work=lambda: batch.work(
            2.0 * FLA_CHUNK_SIZE**2 * (key_size + 10 * FLA_CHUNK_SIZE),
            batch.k,
            g,
            beta,
            *solution,
        ),
    )
    return solution


def pass_states(
    batch: Batch,
    chunk_offsets: torch.Tensor,
    solution: ChunkSolution,
    states: SequenceStates,
    final_state: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(states before each chunk [NT, HV, V, K], what each token writes [T, HV, V]), both like the
    products. Fills `final_state`."""
    tokens, heads, value_size = batch.v.shape[1:]
    key_size = batch.k.shape[3]
    before = batch.empty(batch.num_chunks, heads, value_size, key_size)
    written = batch.empty(tokens, heads, value_size)
    if not batch.num_seqs:
        return before, written
    # What is not given is not read either.
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


def read_outputs(
    batch: Batch,
    decays: torch.Tensor,
    key_norms: torch.Tensor,
    states_before: torch.Tensor,
    written: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """[1, T, HV, V] like the queries, contiguous. `decays` and `key_norms`: a ChunkSolution's."""
    o = batch.empty(*batch.v.shape, dtype=batch.q.dtype)
    if not batch.num_chunks:
        return o
    value_size, key_size = states_before.shape[2:]
    launch(
        chunk_output_kernel,
        (batch.num_chunks * (value_size // batch.block_v), batch.num_value_heads),
        o,
        batch.q,
        batch.k,
        states_before,
        written,
        decays,
        key_norms,
        batch.cu_seqlens,
        batch.chunk_indices,
        batch.num_tokens,
        scale,
        batch.q.stride(1),
        batch.k.stride(1),
        **batch.constants,
        NORMALIZE=batch.normalize,
        V=value_size,
        BLOCK_V=batch.block_v,
        num_warps=4,
        num_stages=1,
        work=lambda: batch.work(
            2.0 * FLA_CHUNK_SIZE * (FLA_CHUNK_SIZE + value_size) * (key_size + FLA_CHUNK_SIZE),
            o,
            batch.q,
            batch.k,
            states_before,
            written,
        ),
    )
    return o
