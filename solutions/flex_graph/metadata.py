"""What the layers of a step know of its batch: views of memory that is there for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn.attention.flex_attention import BlockMask

from .buffers import PersistentBuffers
from .mask import MaskMod
from .steps.limits import Limits


class AttentionMetadata(Protocol):
    """What a layer reads of a step's metadata, as it was and as it is."""

    @property
    def block_mask(self) -> BlockMask: ...


@dataclass(frozen=True)
class FlexAttentionMetadata:
    """Of one step. The next build writes to the same memory."""

    block_mask: BlockMask
    """Of the groups of this step: rows of the buffers' kv_num_blocks and kv_indices."""
    num_tokens: int
    """With those that fill a captured size."""
    max_seq_len: int
    """Further than that no request was looked at."""
    buffers: PersistentBuffers

    @property
    def doc_ids(self) -> torch.Tensor:
        """[num_tokens]: the request of each token."""
        return self.buffers.doc_ids[: self.num_tokens]

    @property
    def kv_num_blocks(self) -> torch.Tensor:
        """[groups of num_tokens]: how many pages each needs."""
        return self.block_mask.kv_num_blocks[0, 0]

    @property
    def kv_indices(self) -> torch.Tensor:
        """[groups of num_tokens, q_block * P + 1]: which ones, then -1, then anything."""
        return self.block_mask.kv_indices[0, 0]


class PageLists(Protocol):
    """Of the groups of a step, or of more: PersistentBuffers are such."""

    @property
    def kv_num_blocks(self) -> torch.Tensor: ...

    @property
    def kv_indices(self) -> torch.Tensor: ...


def block_mask_over(
    lists: PageLists, limits: Limits, mask_mod: MaskMod, num_tokens: int
) -> BlockMask:
    """FlexAttention's view of the lists: nothing is computed, on the host or on the device."""
    groups = limits.groups_of(num_tokens)
    return BlockMask.from_kv_blocks(
        lists.kv_num_blocks[None, None, :groups],
        lists.kv_indices[None, None, :groups],
        BLOCK_SIZE=(limits.q_block, limits.block_size),
        mask_mod=mask_mod,
        seq_lengths=(num_tokens, limits.num_slots),
        compute_q_blocks=False,
    )
