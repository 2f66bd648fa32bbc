"""What every attention over a layer's KV cache begins with."""

from __future__ import annotations

from copy import copy
from typing import Self

import torch

from .kv_cache import KVCache
from .rotate_and_cache import HeadNorms, rotate_and_cache
from .shape import DecoderShape


class CachedAttention:
    """Turns queries and keys by their positions, and keeps nothing of a step but keys and values in
    `cache` (vLLM #36298). What is computed over the cache is a subclass's."""

    def __init__(self, num_heads: int, cache: KVCache, cos_sin: torch.Tensor) -> None:
        """`cos_sin` [max_model_len, head_size] float32, of cos_sin_table: all layers share it."""
        self.num_heads, self.cache, self.cos_sin = num_heads, cache, cos_sin
        self.norms: HeadNorms | None = None
        """Of models that normalise queries and keys before they turn them."""

    @classmethod
    def of(cls, shape: DecoderShape, num_blocks: int, page: int, cos_sin: torch.Tensor) -> Self:
        """With an empty cache of `num_blocks` blocks, of `page` tokens each, where `cos_sin` is."""
        sizes = (num_blocks, page, shape.num_kv_heads, shape.head_size)
        return cls(shape.num_heads, KVCache(*sizes, shape.dtype, cos_sin.device), cos_sin)

    def empty_twin(self, num_blocks: int, page: int, cos_sin: torch.Tensor) -> Self:
        """The same attention over an empty cache of other sizes."""
        twin = copy(self)
        twin.cache = self.cache.empty_twin(num_blocks, page, cos_sin.device)
        twin.cos_sin = cos_sin
        return twin

    def turned_queries(
        self, qkv: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor
    ) -> torch.Tensor:
        """[T, num_heads, head_size], turned where they stand in `qkv` [T, qkv_size]. The cache gets
        keys and values, at `slots` [T] int32; -1 is none."""
        return rotate_and_cache(
            qkv, positions, slots, self.cos_sin, self.cache, self.num_heads, self.norms
        )
