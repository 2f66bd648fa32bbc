"""Mistral: Llama's decoder in which each layer attends to a window of tokens, if the config has
one."""

from __future__ import annotations

from dataclasses import replace

import torch

from solutions.engine.model.config import ModelConfig

from ..fields import Fields
from . import llama

ARCHITECTURES = {"MistralForCausalLM": "mistral"}
DEFAULTS = {
    **{"vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 14_336},
    **{"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8},
    **{"max_position_embeddings": 131_072, "sliding_window": 4096},
}
weights = llama.weights


def model_config(config: Fields, dtype: torch.dtype) -> ModelConfig:
    config = config.with_defaults(DEFAULTS)
    config.expect("layer_types", [])
    window = config.count("sliding_window") if config.has("sliding_window") else None
    return replace(llama.plain_config(config, dtype), windows=(window,))
