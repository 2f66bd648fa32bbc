"""Qwen3 (dense): Llama's decoder with a norm on each head of queries and keys, and with sliding
windows if the config has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from solutions.engine.model.config import ModelConfig
from solutions.engine.model.layers import AttentionLayer
from solutions.engine.model.model import Model

from ..fields import Fields
from ..folder import CheckpointFolder
from ..weights import Weight, one
from . import llama
from .attention import ends_of

ARCHITECTURES = {"Qwen3ForCausalLM": "qwen3"}
DEFAULTS = {
    **{"vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22_016},
    **{"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32},
    **{"head_dim": 128, "max_position_embeddings": 32_768},
    **{"sliding_window": 4096, "max_window_layers": 28},
}


def model_config(config: Fields, dtype: torch.dtype) -> ModelConfig:
    config = config.with_defaults(DEFAULTS)
    plain = llama.plain_config(config, dtype)
    architecture = replace(plain.architecture, head_norms=True)
    windows = windows_of_layers(config, plain.num_layers)
    return replace(plain, architecture=architecture, windows=windows)


def windows_of_layers(config: Fields, num_layers: int) -> tuple[int | None, ...]:
    """Returns how many tokens each layer attends to, None for all. Without `layer_types`, layers
    from `max_window_layers` on have windows if `use_sliding_window` is true."""
    has_windows = config.flag("use_sliding_window", False) and config.has("sliding_window")
    window = config.count("sliding_window") if has_windows else None
    first = config.count("max_window_layers", least=0)
    types = [
        "sliding_attention" if has_windows and i >= first else "full_attention"
        for i in range(num_layers)
    ]
    return llama.windows_of(config.with_defaults({"layer_types": types}), num_layers, window)


def weights(model: Model, folder: CheckpointFolder) -> Iterator[Weight]:
    yield from ends_of(model, "model.")
    for index, layer in enumerate(model.layers.values()):
        assert isinstance(layer, AttentionLayer), "all layers have attention"
        prefix = f"model.layers.{index}."
        yield from llama.layer_weights(layer, prefix, model.config.model)
        yield one(layer.attention.norms, "query", f"{prefix}self_attn.q_norm.weight")
        yield one(layer.attention.norms, "key", f"{prefix}self_attn.k_norm.weight")
