"""The device memory for the metadata of all steps: allocated once, as large as a step can be."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.attention.flex_attention import BlockMask

from solutions.common.decoder.attend import Pages

from .mask import Mask
from .steps.batch import CommonAttentionMetadata
from .steps.limits import Limits


class PersistentBuffers:
    """Device memory for the metadata of every step, at fixed addresses, where a captured graph
    finds it (vLLM #36298).

    Tensors are int32, contiguous, and as large as buffer_shapes says, with S = max_num_seqs, T =
    max_num_batched_tokens, P = pages_per_seq, N = num_gpu_blocks, G = groups.
    """

    query_start_loc: torch.Tensor
    """[S + 1]: where each request's tokens start in the step, then where the last request's end;
    all rows after the batch repeat that end."""
    seq_lens: torch.Tensor
    """[S]: length of each request, tokens computed before included; 0 after the batch."""
    block_table: torch.Tensor
    """[S, P]: the blocks that are each request's pages, in order, then garbage."""

    doc_ids: torch.Tensor
    """[T]: the index of each token's request; 0 for tokens that pad the batch to a captured
    size."""
    decode_offset: torch.Tensor
    """[S]: how many tokens of each request were computed before."""
    physical_to_logical: torch.Tensor
    """[S, N]: for each request, the index of each block of the cache among its pages; -1 for blocks
    that aren't its own."""
    kv_num_blocks: torch.Tensor
    """[G]: how many pages each group of tokens needs."""
    kv_indices: torch.Tensor
    """[G, q_block * P + 1]: the pages that each group has to read, then -1, then what an earlier
    step wrote."""

    page_users: torch.Tensor
    """[N]: how many block-table entries point to each block. `page_users`, `known_pages` and
    `num_known_pages` describe the last step, so that the next build changes only what differs."""
    known_pages: torch.Tensor
    """[S, P]: the blocks of each request for which physical_to_logical and page_users have
    entries."""
    num_known_pages: torch.Tensor
    """[S]: how many entries of known_pages are in use for each request."""
    needs: torch.Tensor
    """[G, q_block, P] int8: 1 for each page of the group's first request that the group has to
    read, then the same for its second request, and so on. `needs` and `num_needed` are used only
    within a build."""
    num_needed: torch.Tensor
    """[G, q_block]: how many pages a group has to read of each of its requests; 0 where it has
    fewer requests."""

    lists_pages = True
    """False if no layer reads kv_num_blocks and kv_indices: the two launches that write them are
    left out."""

    def __init__(self, limits: Limits, device: torch.device) -> None:
        for name, shape in buffer_shapes(limits).items():
            dtype = torch.int8 if name == "needs" else torch.int32
            fill = -1 if name in EMPTY_IS_MINUS_ONE else 0
            setattr(self, name, torch.full(shape, fill, dtype=dtype, device=device))

    def copy_batch(self, common: CommonAttentionMetadata) -> None:
        """Copies a batch to the buffers that graphs read, and makes all rows after it requests
        without tokens."""
        copy_to_persistent(self.query_start_loc, common.query_start_loc)
        copy_to_persistent(self.seq_lens, common.seq_lens)
        copy_to_persistent(self.block_table, common.block_table)
        self.empty_behind(len(common.seq_lens))

    def empty_behind(self, num_requests: int) -> None:
        """Makes all rows from `num_requests` on requests without tokens. Their rows of block_table
        may keep entries of another step: only the pages that the lengths need are read."""
        if num_requests < len(self.seq_lens):
            ends = self.query_start_loc[num_requests:]
            ends[1:].copy_(ends[:1])
            self.seq_lens[num_requests:].fill_(0)


EMPTY_IS_MINUS_ONE = ("physical_to_logical", "kv_indices")


def buffer_shapes(limits: Limits) -> dict[str, tuple[int, ...]]:
    """Returns the smallest shape of each buffer that every step within the limits fits into, by the
    buffer's name.

    The number of groups depends on the tokens of a step, not on the length of a request. Each token
    of a group may belong to a different request, with as many pages as a request can have. A -1
    that a kernel may read comes after these pages.
    """
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
    """Copies `src` to the start of `dst`, and returns that part of `dst`, in the shape of `src`
    (vLLM #36298). The part has the strides of `dst` in every step, so rows stay where a graph
    captured them. If `src` is this part of `dst` already, nothing is copied. An empty `src`
    returns an empty part that begins where `dst` begins.

    Raises ValueError if `src` is larger in some dimension, of another dtype, or on another device.
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
    """The data of one step that layers read, as views of the buffers, which the next build
    overwrites."""

    block_mask: BlockMask
    """FlexAttention's argument for this step: lists of pages in the first rows of the buffers'
    kv_num_blocks and kv_indices, and the mask function."""
    num_tokens: int
    """Number of tokens of the step, those that pad it to a captured size included."""
    max_seq_len: int
    """Number of tokens of a request whose pages are listed; pages after these are not."""
    buffers: PersistentBuffers
    mask: Mask

    @property
    def pages(self) -> Pages:
        """The step's requests and their pages, in the rows of the buffers."""
        buffers = self.buffers
        return Pages(
            buffers.doc_ids, buffers.query_start_loc, buffers.seq_lens, buffers.block_table
        )

    @property
    def doc_ids(self) -> torch.Tensor:
        """[num_tokens]: the index of each token's request."""
        return self.buffers.doc_ids[: self.num_tokens]

    @property
    def kv_num_blocks(self) -> torch.Tensor:
        """[groups of num_tokens]: how many pages each group of tokens has to read."""
        return self.block_mask.kv_num_blocks.flatten()

    @property
    def kv_indices(self) -> torch.Tensor:
        """[groups of num_tokens, q_block * P + 1]: the pages that each group has to read, then -1,
        then arbitrary numbers."""
        return self.block_mask.kv_indices.flatten(0, 2)
