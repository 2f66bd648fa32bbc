"""One layer's attention: writes keys and values to the cache, and attends over it."""

from __future__ import annotations

from typing import Self, TypeGuard

import torch

from debubble.accelerator import flex_attention
from solutions.common.decoder.attend import MOST_TOKENS, attend, attends
from solutions.common.decoder.attend_many import attend_many, attends_many
from solutions.common.decoder.attention import CachedAttention

from ..buffers import FlexAttentionMetadata
from ..mask import AttentionMetadata, Mask, in_batch
from ..steps.inputs import ModelInputs


class FlexAttention(CachedAttention):
    """An attention layer that gets all that it knows of a step as arguments of `forward`."""

    arrived: torch.Tensor | None = None
    """[MOST_TOKENS, num_kv_heads] int32, zeros between steps: where `attend` counts. None if
    FlexAttention computes all steps."""
    has_kernel_for_many = False
    """True if `attend_many` computes the steps that `attend` doesn't take."""

    def forward(
        self, qkv: torch.Tensor, inputs: ModelInputs, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """Returns the output, [T, num_heads * head_size], for `qkv` [T, (num_heads + 2 *
        num_kv_heads) * head_size], whose queries may be rotated in place."""
        if (
            self.arrived is not None
            and _has_plain_mask(metadata)
            and attends(qkv, self.cache, self.num_heads)
        ):
            return attend(
                qkv,
                inputs.slot_mapping,
                metadata.pages,
                self.cache,
                self.cos_sin,
                self.arrived,
                num_heads=self.num_heads,
                window=metadata.mask.sliding_window,
                norms=self.norms,
            )
        queries = self.turned_queries(qkv, inputs.positions, inputs.slot_mapping)
        if _has_plain_mask(metadata) and not self.needs_page_lists(metadata.mask):
            window = metadata.mask.sliding_window
            return attend_many(queries, metadata.pages, self.cache, window=window)
        key, value = self.cache.as_heads()
        block_mask = metadata.block_mask
        attended = flex_attention(in_batch(queries, block_mask), key, value, block_mask=block_mask)
        # A view if the result lies as the queries do, token by token.
        return attended.transpose(1, 2).reshape(len(qkv), -1)

    def needs_page_lists(self, mask: Mask) -> bool:
        """Returns True if FlexAttention computes some steps of a layer with this mask. No kernel of
        our own reads the lists of pages."""
        has_kernel = self.has_kernel_for_many and attends_many(self.num_heads, self.cache)
        return not (has_kernel and mask.is_plain)

    def use_kernel_for_few_tokens(self) -> None:
        """Makes `attend` compute the steps that it can, in place of FlexAttention."""
        shape = (MOST_TOKENS, self.cache.key.shape[2])
        self.arrived = torch.zeros(shape, dtype=torch.int32, device=self.cos_sin.device)

    def empty_twin(self, num_blocks: int, page: int, cos_sin: torch.Tensor) -> Self:
        twin = super().empty_twin(num_blocks, page, cos_sin)
        if twin.arrived is not None:
            # Two models may run at once.
            twin.use_kernel_for_few_tokens()
        return twin


def _has_plain_mask(metadata: AttentionMetadata) -> TypeGuard[FlexAttentionMetadata]:
    """Returns True if `attend` knows the mask of this metadata."""
    return isinstance(metadata, FlexAttentionMetadata) and metadata.mask.is_plain
