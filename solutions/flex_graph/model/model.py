"""A decoder with random weights, cut where attention is: it can be captured whole or in pieces."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F

from solutions.common.decoder.add_rms_norm import add_rms_norm
from solutions.common.decoder.layer import DecoderLayer, Hidden
from solutions.common.decoder.rotate_and_cache import cos_sin_table
from solutions.common.decoder.weights import norm_weight

from ..mask import CAUSAL, AttentionMetadata, Mask, sliding_window
from ..steps.inputs import ModelInputs
from ..steps.limits import Limits
from .attention import FlexAttention
from .config import FlexConfig


class Decoder:
    """Weights of config.seed, made on the device; a KV cache for each layer. It reads its metadata
    by layer name, as a layer of vLLM reads its forward context."""

    def __init__(self, config: FlexConfig, limits: Limits, device: torch.device) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        vocabulary = (config.vocab_size, config.hidden_size)
        cos_sin = cos_sin_table(limits.max_model_len, config.head_size, config.rope_theta, device)
        self.embedding = torch.randn(vocabulary, dtype=config.dtype, device=device)
        cache = limits.num_gpu_blocks, limits.block_size
        self.layers = {
            f"layers.{i}": DecoderLayer(
                config, FlexAttention.of(config, *cache, cos_sin, device), device
            )
            for i in range(config.num_layers)
        }
        self.final_norm = norm_weight(config, device)
        self.lm_head = torch.randn(vocabulary, dtype=config.dtype, device=device)
        self.lm_head.mul_(config.hidden_size**-0.5)
        self.mask_of = {
            name: mask_of_window(config.window_of_layer(i)) for i, name in enumerate(self.layers)
        }
        """What each layer sees, by its name: layers with the same mask share their metadata."""

    def forward(
        self, inputs: ModelInputs, attn_metadata: Mapping[str, AttentionMetadata]
    ) -> torch.Tensor:
        """[T, vocab_size]: the logits behind each token. `attn_metadata` is by layer name, for the
        same T tokens. The layers' caches get the tokens' keys and values."""
        hidden = self.begin(inputs)
        for name, layer in self.layers.items():
            qkv = layer.before_attention(hidden)
            attended = layer.attention.forward(qkv, inputs, attn_metadata[name])
            hidden = layer.after_attention(hidden, attended)
        return self.finish(hidden)

    def begin(self, inputs: ModelInputs) -> Hidden:
        """What the first layer is given: the embeddings of the tokens."""
        return Hidden(F.embedding(inputs.token_ids, self.embedding), None)

    def finish(self, hidden: Hidden) -> torch.Tensor:
        """The logits [T, vocab_size], of what the last layer gives."""
        normed = add_rms_norm(hidden.residual, hidden.update, self.final_norm, self.config.norm_eps)
        return F.linear(normed, self.lm_head)


def mask_of_window(window: int | None) -> Mask:
    """Causal, over `window` tokens; None is all of them."""
    return CAUSAL if window is None else sliding_window(window)
