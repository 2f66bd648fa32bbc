"""Thread the tables through (chapter 03, medium, 20 minutes).

24 layers call one op on the same sequences. The op has two stages, and both need the table of all
chunks. The code below works. But each stage of each layer makes the table again, from starts that
it reads from the device: 96 waits in a step.

The op and both stages already take `chunk_indices`, and none of them uses it. Make the table once
in `decays_of_layers`, from `cu_seqlens_cpu`, and upload it once and without waiting, from memory
that is pinned if `current().pin_memory` is true. Pass it down. Other callers call the op and its
stages without a table: a function that gets None makes its own table, as before.

You need to know the table of `chunk_indices`.

Edit this file, then run

    .venv/bin/pytest katas/gdn/test_thread_the_tables.py

Stuck?         .venv/bin/debubble hint thread_the_tables
Start afresh?  .venv/bin/debubble reset thread_the_tables
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from katas.gdn.given import chunk_ends, prepare_chunk_indices


# Yours to edit, from here on.
def decays_of_layers(
    gates: Sequence[torch.Tensor], cu_seqlens: torch.Tensor, cu_seqlens_cpu: torch.Tensor
) -> list[torch.Tensor]:
    """Returns `decay_until_end` of each layer's gates, [num_tokens] float32 (vLLM #38361).

    `cu_seqlens` and `cu_seqlens_cpu` are [num_seqs + 1] int32, on the device and on the host: where
    each sequence starts, then the end of the last one.
    """
    return [decay_until_end(g, cu_seqlens) for g in gates]


def decay_until_end(
    g: torch.Tensor, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns [num_tokens] float32: the sum of the gates after each token, up to the end of its
    chunk. This is how much of the token's write decays until then.

    `chunk_indices` [NT, 2] int32 on the device has the rows for these cu_seqlens and chunks of 64
    tokens; None makes them here.
    """
    decay = chunk_local_cumsum(g, cu_seqlens)
    return last_of_chunk(decay, cu_seqlens) - decay


def chunk_local_cumsum(
    g: torch.Tensor, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns [num_tokens] float32: the sum of the gates of each token's chunk, up to this
    token."""
    chunk_indices = prepare_chunk_indices(cu_seqlens)
    first, _ = chunk_ends(cu_seqlens, chunk_indices, len(g))
    total = g.cumsum(0)
    return total - (total - g)[first]


def last_of_chunk(
    x: torch.Tensor, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns [num_tokens] like `x`: the value of the last token of each token's chunk."""
    chunk_indices = prepare_chunk_indices(cu_seqlens)
    _, last = chunk_ends(cu_seqlens, chunk_indices, len(x))
    return x[last]
