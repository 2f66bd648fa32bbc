"""One layer's attention: writes keys and values to the cache, and attends over it."""

from __future__ import annotations

import torch

from debubble.accelerator import flex_attention
from solutions.common.decoder.attention import CachedAttention

from ..mask import AttentionMetadata, in_batch
from ..steps.inputs import ModelInputs


class FlexAttention(CachedAttention):
    """An attention layer that gets all that it knows of a step as arguments of `forward`."""

    def forward(
        self, qkv: torch.Tensor, inputs: ModelInputs, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """Returns the output, [T, num_heads * head_size], for `qkv` [T, (num_heads + 2 *
        num_kv_heads) * head_size], whose queries are rotated in place."""
        queries = self.turned_queries(qkv, inputs.positions, inputs.slot_mapping)
        key, value = self.cache.as_heads()
        block_mask = metadata.block_mask
        attended = flex_attention(in_batch(queries, block_mask), key, value, block_mask=block_mask)
        # A view if the result lies as the queries do, token by token.
        return attended.transpose(1, 2).reshape(len(qkv), -1)
