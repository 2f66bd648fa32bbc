"""One layer's attention: into the cache, and over it."""

from __future__ import annotations

import torch

from debubble.accelerator import flex_attention
from solutions.common.decoder.kv_cache import KVCache
from solutions.common.decoder.rotate_and_cache import rotate_and_cache

from ..mask import AttentionMetadata
from ..steps.inputs import ModelInputs


class FlexAttention:
    """Knows nothing of a step but what `forward` is given, and keeps nothing of it but keys and
    values in `cache` (vLLM #36298)."""

    def __init__(self, num_heads: int, cache: KVCache, cos_sin: torch.Tensor) -> None:
        """`cos_sin` [max_model_len, head_size] float32, of cos_sin_table: all layers share it."""
        self.num_heads, self.cache, self.cos_sin = num_heads, cache, cos_sin

    def forward(
        self, qkv: torch.Tensor, inputs: ModelInputs, metadata: AttentionMetadata
    ) -> torch.Tensor:
        """[T, num_heads * head_size] for `qkv` [T, (num_heads + 2 * num_kv_heads) * head_size],
        whose queries are turned where they stand."""
        query = rotate_and_cache(
            qkv, inputs.positions, inputs.slot_mapping, self.cos_sin, self.cache, self.num_heads
        )
        key, value = self.cache.as_heads()
        attended = flex_attention(
            query.transpose(0, 1)[None], key, value, block_mask=metadata.block_mask
        )
        # Where it lies as the queries do, token by token, this is a view.
        return attended[0].transpose(0, 1).reshape(len(qkv), -1)
