"""The chunked gated delta rule, forward: checks what it is given, and launches three kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from .chunk_output_kernel import chunk_output_kernel
from .chunk_solve_kernel import chunk_solve_kernel
from .chunk_stages import product_constants, product_type
from .chunk_tables import FLA_CHUNK_SIZE, ChunkTables
from .sequence_states import SequenceStates
from .sequence_tables import check_sequences, sequences_of
from .state_pass_kernel import state_pass_kernel
from .token_shapes import check_chunked_sizes, check_tokens

BLOCK_V = {True: 64, False: 32}
"""Values of one program, by whether products run on tensor cores: with K = 128 a state then lies
in 64 or 32 registers of each thread. Below 64 rows an H100's faster products aren't used."""
MOST_REGISTERS = 168
"""Of a thread that solves a chunk, so that an SM holds three blocks. Measured on an H200: 47 us
instead of 55 us with the 174 that the compiler would take."""
STAGES = {32: 4, 3: 3, 0: 1}
"""Chunks in shared memory, by the average chunks of a sequence, at least. Few sequences need them
early, many need the room for each other. Measured on an H200: with one chunk each 132 us in one
stage and 197 us in four, with four chunks each 77 us in three and 96 us in four."""


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
    """(o [1, T, HV, V] like `v`, final state or None) of N sequences, in three launches and without
    a wait (vLLM #38361).

    q, k               [1, T, H, K], bfloat16, float16 or float32, the heads of a token contiguous;
    v                  [1, T, HV, V]      K and V powers of two from 16 to 128, HV a multiple of H
    g                  [1, T, HV] float32: the logarithm of the decay, at most 0
    beta               [1, T, HV], bfloat16, float16 or float32
    scale              of the queries, by default K ** -0.5
    initial_state      [N, HV, V, K] float32 or bfloat16, by default zeros; the final state is
                       [N, HV, V, K] float32
    cu_seqlens         [N + 1] int32: where each sequence starts, then the end of the last one;
                       None for one sequence of all tokens
    chunk_indices,     of these cu_seqlens, on the device (`plan_chunk_tables`). Without them they
    chunk_offsets      are made anew by one more launch.
    state_indices      [N] int32: `initial_state` is then a pool [num_slots, HV, V, K], in which
                       sequence n goes on from slot state_indices[n] and, with output_final_state,
                       overwrites it; the pool is returned. A sequence whose slot is < 0 or beyond
                       the pool starts from zeros and leaves nothing; one without tokens leaves its
                       slot alone. No two sequences may share a slot.
    has_initial_state  [N] bool: where false, a sequence starts from zeros

    ValueError for shapes, strides and types that don't fit, or tables that can't belong to these
    cu_seqlens, before anything is launched.
    """
    check_tokens(q, k, v, g, beta)
    check_chunked_sizes(q, v)
    given = (q, cu_seqlens, chunk_indices, chunk_offsets)
    num_seqs, state_shape = check_sequences(*given, needs_offsets=True), (*v.shape[2:], q.shape[3])
    states = SequenceStates(initial_state, state_indices, has_initial_state)
    states.check(num_seqs, state_shape)
    cu_seqlens, tables = sequences_of(*given)
    batch = Batch(q, k, v, cu_seqlens, tables, use_qk_l2norm_in_kernel)
    solution = solve_chunks(batch, g, beta)
    final_state = None
    if output_final_state:
        final_state = states.room_for_final(num_seqs, state_shape, q.device)
    states_before, written = pass_states(batch, solution, states, final_state)
    scale = q.shape[3] ** -0.5 if scale is None else scale
    decays, key_norms = solution.decays, solution.key_norms
    return read_outputs(batch, decays, key_norms, states_before, written, scale), final_state


@dataclass(frozen=True)
class Batch:
    """What all three kernels work on, and what follows from it."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    cu_seqlens: torch.Tensor
    tables: ChunkTables
    normalize: bool

    @property
    def num_tokens(self) -> int:
        return self.v.shape[1]

    @property
    def num_seqs(self) -> int:
        return len(self.cu_seqlens) - 1

    @property
    def num_chunks(self) -> int:
        """Or more, if the table was made on the device."""
        return len(self.tables.chunk_indices)

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
        if not self.on_tensor_cores:
            return 1
        return next(n for least, n in STAGES.items() if self.num_chunks >= least * self.num_seqs)

    @property
    def constants(self) -> dict:
        return {
            "GROUP": self.num_value_heads // self.q.shape[2],
            "CHUNK": FLA_CHUNK_SIZE,
            "K": self.q.shape[3],
            **product_constants(self.q.dtype),
        }

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Uninitialised, of the products' type."""
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
    """Of all chunks, what their states and outputs need."""

    solved: torch.Tensor
    """[T, HV, FLA_CHUNK_SIZE] like the products."""
    decays: torch.Tensor
    """This and the next three: [HV, T] float32."""
    key_norms: torch.Tensor
    read_scales: torch.Tensor
    write_scales: torch.Tensor
    chunk_decays: torch.Tensor
    """[NT, HV] float32."""


def solve_chunks(batch: Batch, g: torch.Tensor, beta: torch.Tensor) -> ChunkSolution:
    heads, tokens = batch.num_value_heads, batch.num_tokens
    solution = ChunkSolution(
        batch.empty(tokens, heads, FLA_CHUNK_SIZE),
        *batch.empty(4, heads, tokens, dtype=torch.float32),
        batch.empty(batch.num_chunks, heads, dtype=torch.float32),
    )
    if not batch.num_chunks:
        return solution
    key_size = batch.k.shape[3]
    halves = batch.on_tensor_cores and not triton.knobs.runtime.interpret
    launch(
        chunk_solve_kernel,
        (batch.num_chunks, heads),
        *solution,
        batch.k,
        g,
        beta,
        batch.cu_seqlens,
        batch.tables.chunk_indices,
        tokens,
        batch.k.stride(1),
        g.stride(1),
        beta.stride(1),
        **batch.constants,
        NORMALIZE=batch.normalize,
        KIND=tl.float16 if halves else tl.float32,
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
        batch.tables.chunk_offsets,
        tokens,
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
        batch.tables.chunk_indices,
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
