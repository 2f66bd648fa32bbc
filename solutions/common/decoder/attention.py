"""The part that all attention over a KV cache shares: rotary positions and the update of the
cache."""

from __future__ import annotations

from copy import copy
from typing import Self

import torch

from .kv_cache import KVCache
from .rotate_and_cache import HeadNorms, rotate_and_cache
from .shape import DecoderShape


class CachedAttention:
    """A base class for attention over a KV cache. It rotates queries and keys by their positions,
    and keeps nothing of a step but keys and values in `cache` (vLLM #36298). A subclass computes
    the attention itself."""

    def __init__(self, num_heads: int, cache: KVCache, cos_sin: torch.Tensor) -> None:
        """Stores the arguments. `cos_sin` [max_model_len, head_size] float32 comes from
        cos_sin_table; all layers share it."""
        self.num_heads, self.cache, self.cos_sin = num_heads, cache, cos_sin
        self.norms: HeadNorms | None = None
        """The norms of models that normalise queries and keys before rotating them, or None."""

    @classmethod
    def of(cls, shape: DecoderShape, num_blocks: int, page: int, cos_sin: torch.Tensor) -> Self:
        """Makes attention with an empty cache of `num_blocks` blocks, of `page` tokens each, on the
        device of `cos_sin`."""
        sizes = (num_blocks, page, shape.num_kv_heads, shape.head_size)
        return cls(shape.num_heads, KVCache(*sizes, shape.dtype, cos_sin.device), cos_sin)

    def empty_twin(self, num_blocks: int, page: int, cos_sin: torch.Tensor) -> Self:
        """Returns a copy with `cos_sin` and with an empty cache of `num_blocks` blocks, of `page`
        tokens each, on the device of `cos_sin`."""
        twin = copy(self)
        twin.cache = self.cache.empty_twin(num_blocks, page, cos_sin.device)
        twin.cos_sin = cos_sin
        return twin

    def turned_queries(
        self, qkv: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor
    ) -> torch.Tensor:
        """Returns the queries of `qkv` [T, qkv_size], [T, num_heads, head_size], rotated there in
        place by `positions` [T] int32. Writes rotated keys, and values, to the cache at `slots` [T]
        int32; -1 writes none."""
        return rotate_and_cache(
            qkv, positions, slots, self.cos_sin, self.cache, self.num_heads, self.norms
        )
