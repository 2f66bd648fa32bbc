"""A decoder with random weights: the layers around the attention, in plain PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
import torch.nn.functional as F

from ..ranges import RangeState
from .attention import prefix_attention
from .batch import Batch
from .config import ImageStepConfig


class PrefixMetadata(Protocol):
    """The attributes of a step's metadata that a layer reads, whichever TritonAttentionMetadata it
    is: the tensor is a field in metadata.py, and a property that uploads in before.py."""

    @property
    def batch(self) -> Batch: ...

    @property
    def mm_prefix_range_tensor(self) -> torch.Tensor | RangeState | None: ...


class PrefixDecoder:
    """A decoder of `config.num_layers` layers, each with a KV cache of `num_blocks` blocks, all on
    `device`. Each layer finds its metadata by its own name, as in vLLM's forward context."""

    def __init__(self, config: ImageStepConfig, num_blocks: int, device: torch.device) -> None:
        torch.manual_seed(config.seed)
        self.layers = {
            f"layers.{i}": PrefixDecoderLayer(config, i, num_blocks, device)
            for i in range(config.num_layers)
        }

    def forward(
        self, hidden: torch.Tensor, attn_metadata: Mapping[str, PrefixMetadata]
    ) -> torch.Tensor:
        """Returns the hidden states after the last layer, [num_tokens, hidden_size] as `hidden` is.

        `attn_metadata` has a value for each name in `layers`.
        """
        for name, layer in self.layers.items():
            hidden = layer.forward(hidden, attn_metadata[name])
        return hidden


class PrefixDecoderLayer:
    """A decoder layer: attention and a gated MLP, each added to its input. Its `index` decides
    whether its attention has a window."""

    def __init__(
        self, config: ImageStepConfig, index: int, num_blocks: int, device: torch.device
    ) -> None:
        self.num_heads, self.num_kv_heads = config.num_heads, config.num_kv_heads
        self.head_size = config.head_size
        self.window = config.window_of_layer(index)

        def weight(rows: int, columns: int, scale: float) -> torch.Tensor:
            return torch.randn(rows, columns, dtype=config.dtype, device=device).mul_(scale)

        heads = (self.num_heads + 2 * self.num_kv_heads) * self.head_size
        # Normalized inputs have length 1; the inputs of `out` and `down` have a length that grows
        # with their size.
        self.qkv = weight(heads, config.hidden_size, 1.0)
        attended = self.num_heads * self.head_size
        self.out = weight(config.hidden_size, attended, attended**-0.5)
        intermediate = config.intermediate_size
        self.gate_up = weight(2 * intermediate, config.hidden_size, 1.0)
        self.down = weight(config.hidden_size, intermediate, intermediate**-0.5)
        cache_shape = (num_blocks, config.block_size, self.num_kv_heads, self.head_size)
        self.key_cache = torch.zeros(cache_shape, dtype=config.dtype, device=device)
        self.value_cache = torch.zeros(cache_shape, dtype=config.dtype, device=device)

    def forward(self, hidden: torch.Tensor, metadata: PrefixMetadata) -> torch.Tensor:
        heads = F.linear(F.normalize(hidden, dim=-1), self.qkv).unflatten(-1, (-1, self.head_size))
        query, key, value = heads.split([self.num_heads, *[self.num_kv_heads] * 2], dim=1)
        slots = metadata.batch.slot_mapping
        self.key_cache.flatten(0, 1).index_copy_(0, slots, key)
        self.value_cache.flatten(0, 1).index_copy_(0, slots, value)
        attended = prefix_attention(
            query,
            self.key_cache,
            self.value_cache,
            metadata.batch,
            ranges=metadata.mm_prefix_range_tensor,
            window=self.window,
        )
        hidden = hidden + F.linear(attended.flatten(1), self.out)
        gate, up = F.linear(F.normalize(hidden, dim=-1), self.gate_up).chunk(2, dim=-1)
        return hidden + F.linear(F.gelu(gate, approximate="tanh") * up, self.down)
