"""A step's metadata in memory that is there for good, by PyTorch's own operators.

An exercise of its own, since the system does this in the Triton kernels of tables/: it keeps the
same rules for what is behind a step.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..buffers import copy_to_persistent


class MetadataTensors(NamedTuple):
    """What attention reads of a step, int32 on the device. As buffers they are as large as a step
    can be: of S requests, T tokens, and G groups of tokens with up to W pages each."""

    query_start_loc: torch.Tensor
    """[S + 1]: where each request's tokens start, then the end of the last one's."""
    seq_lens: torch.Tensor
    """[S]: tokens of each request, with those that were computed before."""
    decode_offset: torch.Tensor
    """[S]: how many were computed before."""
    doc_ids: torch.Tensor
    """[T]: the request of each token."""
    kv_num_blocks: torch.Tensor
    """[G]: how many pages each group of tokens needs."""
    kv_indices: torch.Tensor
    """[G, W + 1]: which ones, and -1 behind them."""


def persistent_metadata(
    buffers: MetadataTensors,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    pages: torch.Tensor,
) -> MetadataTensors:
    """The metadata of a step, in `buffers` (vLLM #36298).

    `query_start_loc` [R + 1] and `seq_lens` [R] are those of the step's R requests. `pages` has a
    row for each group of its tokens: the pages that the group needs, then -1. All are int32 on the
    device, and none is a part of the buffers.
    """
    last = query_start_loc[-1]
    _write(buffers.query_start_loc, query_start_loc, behind=last)
    _write(buffers.seq_lens, seq_lens, behind=0)
    _write(buffers.decode_offset, seq_lens - query_start_loc.diff(), behind=0)
    token = torch.arange(len(buffers.doc_ids), dtype=torch.int32, device=last.device)
    # The first request that ends behind the token; tokens behind all of them pad the batch.
    request = torch.searchsorted(query_start_loc[1:], token, right=True, out_int32=True)
    buffers.doc_ids.copy_(request.masked_fill_(token >= last, 0))
    _write(buffers.kv_num_blocks, (pages >= 0).sum(1, dtype=torch.int32), behind=0)
    _write(buffers.kv_indices, pages, behind=-1)
    return buffers


def _write(dst: torch.Tensor, src: torch.Tensor, behind: int | torch.Tensor) -> None:
    """`src` at the start of `dst`, and `behind` in all the rest of it."""
    dst.fill_(behind)
    copy_to_persistent(dst, src)
