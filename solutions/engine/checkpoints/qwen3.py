"""Qwen3 (dense): Llama's decoder, with queries and keys that are normalised head by head, and
windows where a config asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from ..model.config import ModelConfig
from ..model.layers import AttentionLayer
from ..model.model import Model
from . import llama
from .attention import ends_of
from .fields import Fields
from .folder import CheckpointFolder
from .weights import Weight, one

ARCHITECTURES = ("Qwen3ForCausalLM",)


def model_config(config: Fields, dtype: torch.dtype) -> ModelConfig:
    plain = llama.model_config(config, dtype)
    architecture = replace(plain.architecture, head_norms=True)
    return replace(plain, architecture=architecture, windows=windows_of(config, plain.num_layers))


def windows_of(config: Fields, num_layers: int) -> tuple[int | None, ...]:
    """Tokens that each layer sees, None for all. ValueError for a type of layer without attention
    of these two kinds."""
    if not config.has("layer_types"):
        config.expect("use_sliding_window", [False])
        return (None,)
    types = config.texts("layer_types", num_layers)
    windows: dict[str, int | None] = {"full_attention": None}
    if "sliding_attention" in types:
        windows["sliding_attention"] = config.count("sliding_window")
    for index, kind in enumerate(types):
        if kind not in windows:
            raise ValueError(
                f"{config.source}: layer_types has {kind!r} at layer {index}: this engine serves "
                "full_attention and sliding_attention there"
            )
    return tuple(windows[kind] for kind in types)


def weights(model: Model, folder: CheckpointFolder) -> Iterator[Weight]:
    yield from ends_of(model, "model.")
    for index, layer in enumerate(model.layers.values()):
        assert isinstance(layer, AttentionLayer), "all layers have attention"
        prefix = f"model.layers.{index}."
        yield from llama.layer_weights(layer, prefix, model.config.model)
        yield one(layer.attention.norms, "query", f"{prefix}self_attn.q_norm.weight")
        yield one(layer.attention.norms, "key", f"{prefix}self_attn.k_norm.weight")
