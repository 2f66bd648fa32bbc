"""Llama 3: the plain decoder, with rotary positions that may be scaled to serve longer texts."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from solutions.engine.model.architecture import Architecture
from solutions.engine.model.config import ModelConfig
from solutions.engine.model.layers import AttentionLayer
from solutions.engine.model.model import Model

from ..fields import Fields
from ..folder import CheckpointFolder
from ..weights import Weight, mlp, one
from .attention import DECODER, ends_of, plain_attention, shape_of
from .ropes import rope_of

ARCHITECTURES = {"LlamaForCausalLM": "llama"}
"""The family's classes in transformers, as a config names them, each with its model_type."""
DEFAULTS = {
    **{"vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 11_008},
    **{"num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048},
}
SERVED = DECODER | {"hidden_act": ["silu"], "mlp_bias": [False]}


def model_config(config: Fields, dtype: torch.dtype) -> ModelConfig:
    config = config.with_defaults(DEFAULTS)
    # transformers sizes its KV cache by this field, although no layer has a window.
    config.expect("sliding_window", [])
    windows_of(config, config.count("num_hidden_layers"), None)
    return plain_config(config, dtype)


def plain_config(config: Fields, dtype: torch.dtype) -> ModelConfig:
    """Returns the config of a decoder in which each layer attends to all tokens. `config` has the
    family's defaults already. Raises ValueError for wrong fields, and for values that are not
    served."""
    config.expect_all(SERVED)
    shape = shape_of(config)
    rope = rope_of(config, int(shape["head_size"]))
    tied = config.flag("tie_word_embeddings", False)
    return ModelConfig(
        **shape,  # type: ignore[arg-type]  # counts, and one number
        dtype=dtype,
        architecture=Architecture(ropes=(rope,), tied=tied),
    )


def windows_of(config: Fields, num_layers: int, window: int | None) -> tuple[int | None, ...]:
    """Returns how many tokens each layer attends to by `layer_types`: `window` for
    sliding_attention, None (all of them) for full_attention. Returns (None,) without that field.
    Raises ValueError for an unknown type, and for sliding_attention if `window` is None."""
    if not config.has("layer_types"):
        return (None,)
    windows = {"full_attention": None}
    if window is not None:
        windows["sliding_attention"] = window  # type: ignore[assignment]  # int or None
    types = config.texts("layer_types", num_layers)
    for index, kind in enumerate(types):
        if kind not in windows:
            raise ValueError(
                f"{config.source}: layer_types has {kind!r} at layer {index}: with the other "
                f"fields of this config, this engine serves {' and '.join(windows)} there"
            )
    return tuple(windows[kind] for kind in types)


def weights(model: Model, folder: CheckpointFolder) -> Iterator[Weight]:
    yield from ends_of(model, "model.")
    for index, layer in enumerate(model.layers.values()):
        assert isinstance(layer, AttentionLayer), "all layers have attention"
        yield from layer_weights(layer, f"model.layers.{index}.", model.config.model)


def layer_weights(layer: AttentionLayer, prefix: str, config: ModelConfig) -> Iterator[Weight]:
    """Yields the weights of a Llama layer, which has one norm before attention and one before its
    MLP, with the names of their tensors."""
    yield one(layer, "attention_norm", f"{prefix}input_layernorm.weight")
    yield from plain_attention(layer, f"{prefix}self_attn.", config)
    yield one(layer.mlp, "norm", f"{prefix}post_attention_layernorm.weight")
    yield from mlp(layer.mlp, f"{prefix}mlp.", config.intermediate_size)
