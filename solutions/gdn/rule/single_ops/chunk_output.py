"""Last single op: the queries' reads from the state and from the tokens of their own chunk."""

from __future__ import annotations

import torch

from ..arguments import check_chunked_sizes, check_sequences, chunks_of
from ..chunk_batch import ChunkBatch
from ..chunks import most_chunks
from ..read_outputs import read_outputs
from .operands import FLOAT32, check_groups, check_operand


def chunk_fwd_o(
    q: torch.Tensor,
    k: torch.Tensor,
    v_new: torch.Tensor,
    h: torch.Tensor,
    g: torch.Tensor,
    scale: float | None = None,
    cu_seqlens: torch.Tensor | None = None,
    chunk_indices: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the outputs o [1, T, HV, V], of the dtype of `q` (vLLM #38361), by the kernel of
    `chunk_gated_delta_rule`.

    q, k           [1, T, H, K], normalised, the heads of a token contiguous
    v_new, h       [1, T, HV, V] and [1, NT, HV, V, K], contiguous: from
                   `chunk_gated_delta_rule_fwd_h` with the same tables
    g              [1, T, HV] float32, contiguous: from `chunk_local_cumsum`
    scale          factor of the queries, by default K ** -0.5
    cu_seqlens, chunk_indices as in `chunk_local_cumsum`; so are the errors
    """
    check_operand("q", q, (1, "T", "H", "K"), q.device, dense_from=2)
    check_operand("k", k, q.shape, q.device, (q.dtype,), dense_from=2)
    _, num_tokens, num_heads, key_size = q.shape
    check_operand("v_new", v_new, (1, num_tokens, "HV", "V"), q.device)
    check_chunked_sizes(q, v_new)
    num_value_heads, value_size = v_new.shape[2:]
    check_groups(num_heads, num_value_heads)
    check_operand("g", g, v_new.shape[:3], q.device, FLOAT32)
    num_seqs = check_sequences(q, cu_seqlens, chunk_indices)
    num_chunks = most_chunks(num_seqs, num_tokens) if chunk_indices is None else len(chunk_indices)
    check_operand("h", h, (1, num_chunks, num_value_heads, value_size, key_size), q.device)
    starts, rows = chunks_of(q, cu_seqlens, chunk_indices)
    batch = ChunkBatch(q, k, v_new, starts, rows, normalize=False)
    decays = g.squeeze(0).T.contiguous()
    scale = key_size**-0.5 if scale is None else scale
    return read_outputs(batch, decays, torch.ones_like(decays), h.squeeze(0), v_new, scale)
