"""Qwen2 and Qwen2.5 (dense): Llama's decoder with biases of queries, keys and values, and with
sliding windows if the config has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from solutions.engine.model.config import ModelConfig
from solutions.engine.model.model import Model

from ...layers.attention import BiasedAttentionLayer
from ..fields import Fields
from ..folder import CheckpointFolder
from ..weights import Source, Weight
from . import llama, qwen3
from .attention import ends_of

ARCHITECTURES = {"Qwen2ForCausalLM": "qwen2"}
DEFAULTS = {name: value for name, value in qwen3.DEFAULTS.items() if name != "head_dim"}


def model_config(config: Fields, dtype: torch.dtype) -> ModelConfig:
    # The biases are always there, whatever `attention_bias` says: transformers doesn't read it.
    values = {**config.values, "attention_bias": None}
    config = Fields(values, config.source).with_defaults(DEFAULTS)
    plain = llama.plain_config(config, dtype)
    architecture = replace(plain.architecture, attention_layer=BiasedAttentionLayer)
    windows = qwen3.windows_of_layers(config, plain.num_layers)
    return replace(plain, architecture=architecture, windows=windows)


def weights(model: Model, folder: CheckpointFolder) -> Iterator[Weight]:
    yield from ends_of(model, "model.")
    config = model.config.model
    of_keys = config.num_kv_heads * config.head_size
    counts = {"q_proj": config.query_size, "k_proj": of_keys, "v_proj": of_keys}
    for index, layer in enumerate(model.layers.values()):
        assert isinstance(layer, BiasedAttentionLayer), "all layers have biases"
        prefix = f"model.layers.{index}."
        yield from llama.layer_weights(layer, prefix, config)
        biases = (
            Source(f"{prefix}self_attn.{name}.bias", (count,)) for name, count in counts.items()
        )
        yield Weight(layer, "qkv_bias", tuple(biases))
