"""The keys that a query sees: defined in positions of a request, evaluated on slots of the KV
cache.

FlexAttention gets the mask in two forms: a function of a query and a key, and for each group of
queries the list of the pages that it has to read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn.attention.flex_attention import BlockMask

from .steps.limits import ALONE, BLOCK_SIZES, Limits

MaskMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""A function (batch, head, query, key) -> bool that says if the query sees the key. All are tensors
of one shape, or of shapes that broadcast."""


@dataclass(frozen=True)
class Mask:
    """A mask: which keys of its request a query sees, in all layers of one builder. Raises
    ValueError for a window of less than 1 token."""

    causal: bool = True
    """True if a query sees no key after itself; False if it sees later keys too."""
    sliding_window: int | None = None
    """The window in tokens, or None for no window: a query sees only keys less than this far from
    it, on each side that it sees."""
    logical_mask_mod: MaskMod | None = None
    """A further condition on keys, whose query and key are positions in one request; None for
    none."""

    def __post_init__(self) -> None:
        if self.sliding_window is not None and self.sliding_window < 1:
            raise ValueError(
                f"a sliding window of {self.sliding_window} tokens: a query sees at least itself, "
                "so use 1 or more, or None for no window"
            )

    @property
    def is_plain(self) -> bool:
        """True for a causal mask with nothing but a window."""
        return self.causal and self.logical_mask_mod is None


CAUSAL = Mask()
BIDIRECTIONAL = Mask(causal=False)


def sliding_window(tokens: int) -> Mask:
    """Returns the mask by which a query sees itself and the `tokens` - 1 keys before it."""
    return Mask(sliding_window=tokens)


class MaskTables(Protocol):
    """The tables by which a mask finds the position of a token and of a slot, for at least R
    requests with T tokens: int32, on the device."""

    @property
    def doc_ids(self) -> torch.Tensor:
        """[T]: the request of each token."""

    @property
    def query_start_loc(self) -> torch.Tensor:
        """[R + 1]: where each request's tokens start in the step, then where the last request's
        end."""

    @property
    def seq_lens(self) -> torch.Tensor:
        """[R]: length of each request, tokens computed before included."""

    @property
    def decode_offset(self) -> torch.Tensor:
        """[R]: how many tokens of each request were computed before."""

    @property
    def physical_to_logical(self) -> torch.Tensor:
        """[R, num_gpu_blocks]: for each request, the index of each block of the cache among its
        pages, or -1."""


def paged_mask_mod(mask: Mask, tables: MaskTables, limits: Limits) -> MaskMod:
    """Returns the mask as FlexAttention takes it: a function of a token of the step and a slot of
    the KV cache.

    A query sees a key if the slot's block is one of its request's pages, the slot is within the
    length, and `mask` allows it. Tokens that pad the batch to a captured size see nothing.
    """
    alone = limits.q_block == ALONE
    doc_ids, query_start_loc, seq_lens = tables.doc_ids, tables.query_start_loc, tables.seq_lens
    decode_offset, physical_to_logical = tables.decode_offset, tables.physical_to_logical
    page, last_position = limits.block_size, limits.max_model_len - 1
    causal, window, also = mask.causal, mask.sliding_window, mask.logical_mask_mod

    def mask_mod(
        b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, physical_kv: torch.Tensor
    ) -> torch.Tensor:
        token = b if alone else q
        # int64, since the rows of large tables are further apart than int32 can count.
        request = doc_ids[token].to(torch.int64)
        seq_len = seq_lens[request]
        position = token - query_start_loc[request] + decode_offset[request]
        logical_page = physical_to_logical[request, physical_kv // page]
        kv = logical_page * page + physical_kv % page
        # A token that pads the batch would count as one of request 0, after its last token.
        sees = (logical_page >= 0) & (kv < seq_len) & (position < seq_len)
        if causal:
            sees = sees & (kv <= position)
        if window is not None:
            sees = sees & (position - kv < window)
        if window is not None and not causal:
            sees = sees & (kv - position < window)
        if also is not None:
            # FlexAttention evaluates this for keys of other requests too, and the function may look
            # up values by position.
            inside = position.clamp(0, last_position), kv.clamp(0, last_position)
            # The function always sees batch 0, whatever batch FlexAttention is called with.
            sees = sees & also(b * 0 if alone else b, h, *inside)
        return sees

    return mask_mod


class HasPageLists(Protocol):
    """Lists of the pages that each of G groups of tokens reads. A step may have fewer groups."""

    @property
    def kv_num_blocks(self) -> torch.Tensor:
        """[G] int32: how many pages each group of tokens reads."""

    @property
    def kv_indices(self) -> torch.Tensor:
        """[G, columns] int32: the pages that each group of tokens reads, then at least one -1."""


class AttentionMetadata(Protocol):
    """The data of a step that a layer's attention reads, whichever builder made it."""

    @property
    def block_mask(self) -> BlockMask:
        """FlexAttention's argument for this step: lists of pages, and the mask function for their
        keys."""


def block_mask_over(
    lists: HasPageLists, limits: Limits, mask_mod: MaskMod, num_tokens: int
) -> BlockMask:
    """Returns FlexAttention's view of the `lists` of a step with `num_tokens` tokens: a batch of
    one with all tokens or, if `q_block` is ALONE, a batch of `num_tokens` with one token each.
    Nothing is computed, on the host or on the device."""
    groups = limits.groups_of(num_tokens)
    counts, indices = lists.kv_num_blocks[:groups], lists.kv_indices[:groups]
    alone = limits.q_block == ALONE
    return BlockMask.from_kv_blocks(
        counts[:, None, None] if alone else counts[None, None],
        indices[:, None, None] if alone else indices[None, None],
        BLOCK_SIZE=(BLOCK_SIZES[0] if alone else limits.q_block, limits.block_size),
        mask_mod=mask_mod,
        seq_lengths=(1 if alone else num_tokens, limits.num_slots),
        compute_q_blocks=False,
    )


def in_batch(queries: torch.Tensor, block_mask: BlockMask) -> torch.Tensor:
    """Returns the queries [T, heads, head_size] as FlexAttention takes them with `block_mask`: a
    view [batch, heads, T // batch, head_size]."""
    batch = len(block_mask.kv_num_blocks)
    return queries.unflatten(0, (batch, -1)).transpose(1, 2)
