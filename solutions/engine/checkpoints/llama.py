"""Llama 3: the plain decoder, with positions that may be slowed down for long texts."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..model.architecture import Architecture
from ..model.config import ModelConfig
from ..model.layers import AttentionLayer
from ..model.model import Model
from .attention import ends_of, plain_attention, shape_of
from .fields import Fields
from .folder import CheckpointFolder
from .ropes import rope_of
from .weights import Weight, mlp, one

ARCHITECTURES = ("LlamaForCausalLM",)


def model_config(config: Fields, dtype: torch.dtype) -> ModelConfig:
    for name in ("attention_bias", "mlp_bias"):
        config.expect(name, [False])
    config.expect("hidden_act", ["silu"])
    shape = shape_of(config)
    rope = rope_of(config, int(shape["head_size"]))
    tied = config.flag("tie_word_embeddings", False)
    return ModelConfig(
        **shape,  # type: ignore[arg-type]  # counts, and one number
        dtype=dtype,
        architecture=Architecture(ropes=(rope,), tied=tied),
    )


def weights(model: Model, folder: CheckpointFolder) -> Iterator[Weight]:
    yield from ends_of(model, "model.")
    for index, layer in enumerate(model.layers.values()):
        assert isinstance(layer, AttentionLayer), "all layers have attention"
        yield from layer_weights(layer, f"model.layers.{index}.", model.config.model)


def layer_weights(layer: AttentionLayer, prefix: str, config: ModelConfig) -> Iterator[Weight]:
    """Of a layer that has one norm before attention and one before its MLP."""
    yield one(layer, "attention_norm", f"{prefix}input_layernorm.weight")
    yield from plain_attention(layer, f"{prefix}self_attn.", config)
    yield one(layer.mlp, "norm", f"{prefix}post_attention_layernorm.weight")
    yield from mlp(layer.mlp, f"{prefix}mlp.", config.intermediate_size)
