"""A decoder with random weights, cut where attention is: it can be captured whole or in pieces."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F

from solutions.common.decoder.layer import DecoderLayer, Hidden
from solutions.common.decoder.model import DecoderModel
from solutions.common.decoder.rotate_and_cache import cos_sin_table

from ..mask import CAUSAL, AttentionMetadata, Mask, sliding_window
from ..steps.inputs import ModelInputs
from ..steps.limits import Limits
from .attention import FlexAttention
from .config import FlexConfig


class Decoder(DecoderModel[DecoderLayer[FlexAttention]]):
    """A decoder with weights from config.seed, made on the device, and a KV cache for each layer.
    It looks up its metadata by layer name, as a layer of vLLM reads its forward context."""

    def __init__(self, config: FlexConfig, limits: Limits, device: torch.device) -> None:
        self.config = config
        cos_sin = cos_sin_table(limits.max_model_len, config.head_size, config.rope_theta, device)

        def make_layer(index: int) -> DecoderLayer[FlexAttention]:
            blocks = (limits.num_gpu_blocks, limits.block_size)
            attention = FlexAttention.of(config, *blocks, cos_sin)
            if config.has_kernel_for_few:
                attention.use_kernel_for_few_tokens()
            attention.has_kernel_for_many = config.has_kernel_for_many
            return DecoderLayer(config, attention, device)

        super().__init__(config, config.vocab_size, make_layer, device)
        self.mask_of = {
            name: mask_of_window(config.window_of_layer(i)) for i, name in enumerate(self.layers)
        }
        """The mask of each layer, by layer name. Layers with the same mask share their metadata."""

    def forward(
        self, inputs: ModelInputs, attn_metadata: Mapping[str, AttentionMetadata]
    ) -> torch.Tensor:
        """Returns the logits after each token, [T, vocab_size], and writes the tokens' keys and
        values to the layers' caches. `attn_metadata` has the metadata of each layer by its name,
        for the same T tokens."""
        hidden = self.begin(inputs)
        for name, layer in self.layers.items():
            qkv = layer.before_attention(hidden)
            attended = layer.attention.forward(qkv, inputs, attn_metadata[name])
            hidden = layer.after_attention(hidden, attended)
        return self.finish(hidden)

    def begin(self, inputs: ModelInputs) -> Hidden:
        """Returns the input of the first layer: the embeddings of the tokens."""
        return Hidden(F.embedding(inputs.token_ids, self.embedding), None)


def mask_of_window(window: int | None) -> Mask:
    """Returns the causal mask with a window of `window` tokens; None is no window."""
    return CAUSAL if window is None else sliding_window(window)
