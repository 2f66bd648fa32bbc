"""All device memory that the metadata of steps lies in: made once, as large as a step can be."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.attention.flex_attention import BlockMask

from .steps.limits import Limits


class PersistentBuffers:
    """Where the metadata of every step lies, so that a captured graph finds it (vLLM #36298).

    Tensors are int32, contiguous, and as large as buffer_shapes says, with S = max_num_seqs,
    T = max_num_batched_tokens, P = pages_per_seq, N = num_gpu_blocks, G = groups.
    """

    query_start_loc: torch.Tensor
    """[S + 1]: where each request's tokens start, then their end; behind the batch, all end."""
    seq_lens: torch.Tensor
    """[S]: 0 behind the batch."""
    block_table: torch.Tensor
    """[S, P]: behind a request's length, garbage."""

    doc_ids: torch.Tensor
    """[T]: the request of each token; 0 for tokens that fill a captured size."""
    decode_offset: torch.Tensor
    """[S]: tokens of each request that were computed before."""
    physical_to_logical: torch.Tensor
    """[S, N]: which of a request's pages a block is, -1 for the blocks of others."""
    kv_num_blocks: torch.Tensor
    """[G]: how many pages a group of tokens needs."""
    kv_indices: torch.Tensor
    """[G, q_block * P + 1]: which ones, then -1. Behind that, whatever a step left there."""

    page_users: torch.Tensor
    """[N]: entries of block tables that name a block. This and the next two keep what the last
    step had, so that the next one changes no more than it must."""
    known_pages: torch.Tensor
    """[S, P]: the pages that physical_to_logical and page_users hold."""
    num_known_pages: torch.Tensor
    """[S]: how many of them each request has."""
    needs: torch.Tensor
    """[G, q_block, P] int8: whether a group needs a page of its first request, its second, and so
    on. This and the next one are of use only within a build."""
    num_needed: torch.Tensor
    """[G, q_block]: how many pages of each, and 0 where a group has fewer requests."""

    def __init__(self, limits: Limits, device: torch.device) -> None:
        for name, shape in buffer_shapes(limits).items():
            dtype = torch.int8 if name == "needs" else torch.int32
            fill = -1 if name in EMPTY_IS_MINUS_ONE else 0
            setattr(self, name, torch.full(shape, fill, dtype=dtype, device=device))

    def empty_behind(self, num_requests: int) -> None:
        """Makes the rows behind so many requests those of requests without tokens. What is left of
        another step in block_table does no harm: only what the lengths need is read."""
        if num_requests < len(self.seq_lens):
            ends = self.query_start_loc[num_requests:]
            ends[1:].copy_(ends[:1])
            self.seq_lens[num_requests:].fill_(0)


EMPTY_IS_MINUS_ONE = ("physical_to_logical", "kv_indices")


def buffer_shapes(limits: Limits) -> dict[str, tuple[int, ...]]:
    """By name, the sizes that no step within the limits exceeds. Groups grow with the tokens of a
    step, not with the length of a request; and each of a group's tokens may be of a request of its
    own, with all the pages that one can have, before the -1 that a kernel may read."""
    seqs, tokens, pages = limits.max_num_seqs, limits.max_num_batched_tokens, limits.pages_per_seq
    return {
        "query_start_loc": (seqs + 1,),
        "seq_lens": (seqs,),
        "block_table": (seqs, pages),
        "doc_ids": (tokens,),
        "decode_offset": (seqs,),
        "physical_to_logical": (seqs, limits.num_gpu_blocks),
        "kv_num_blocks": (limits.groups,),
        "kv_indices": (limits.groups, limits.q_block * pages + 1),
        "page_users": (limits.num_gpu_blocks,),
        "known_pages": (seqs, pages),
        "num_known_pages": (seqs,),
        "needs": (limits.groups, limits.q_block, pages),
        "num_needed": (limits.groups, limits.q_block),
    }


def copy_to_persistent(dst: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    """The part of `dst` that has the shape of `src`, from its start, filled with `src`
    (vLLM #36298). Its strides are those of `dst`, whatever the step: rows stay where a graph
    captured them. A `src` that is this very part is returned as it is, uncopied.

    ValueError if `src` is larger in some dimension, of another type, or on another device.
    """
    if dst.dim() != src.dim() or dst.dtype != src.dtype or dst.device != src.device:
        raise ValueError(
            f"{_described(src)} can't be copied to {_described(dst)}: make them alike in all but "
            "their sizes"
        )
    if any(size > room for size, room in zip(src.shape, dst.shape, strict=True)):
        raise ValueError(
            f"a tensor of {list(src.shape)} for persistent memory of {list(dst.shape)}: schedule "
            "less, or make the limits larger"
        )
    part = dst[tuple(map(slice, src.shape))]
    if (src.data_ptr(), src.stride()) == (part.data_ptr(), part.stride()):
        return src
    return part.copy_(src)


def _described(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"


@dataclass(frozen=True)
class FlexAttentionMetadata:
    """What layers read of one step: views of buffers, to which the next build writes."""

    block_mask: BlockMask
    """Of the groups of this step: the first rows of the buffers' kv_num_blocks and kv_indices."""
    num_tokens: int
    """Tokens of the step, with those that fill a captured size."""
    max_seq_len: int
    """No page of a request behind so many tokens is listed."""
    buffers: PersistentBuffers

    @property
    def doc_ids(self) -> torch.Tensor:
        """[num_tokens]: the request of each token."""
        return self.buffers.doc_ids[: self.num_tokens]

    @property
    def kv_num_blocks(self) -> torch.Tensor:
        """[groups of num_tokens]: how many pages each needs."""
        return self.block_mask.kv_num_blocks.flatten()

    @property
    def kv_indices(self) -> torch.Tensor:
        """[groups of num_tokens, q_block * P + 1]: which ones, then -1, then anything."""
        return self.block_mask.kv_indices.flatten(0, 2)
