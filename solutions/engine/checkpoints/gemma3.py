"""Gemma 3: windows in most layers, each part between two norms, and images whose tokens see one
another both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch

from ..model.architecture import Architecture
from ..model.config import ModelConfig
from ..model.family_layers import SandwichLayer
from ..model.model import Model
from .attention import ends_of, plain_attention, shape_of
from .fields import Fields
from .folder import CheckpointFolder
from .qwen3 import windows_of
from .ropes import rope_of
from .weights import Weight, mlp, one

ARCHITECTURES = ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration")
IMAGES_AT_ONCE = 32
"""Images whose tokens the device keeps."""
PREFIXES = ("language_model.model.", "model.language_model.", "model.")
"""Where the decoder's tensors are, by the age of the checkpoint; without images the last one."""
IGNORED = ("vision_tower.", "multi_modal_projector.", "model.vision_tower.")
"""What turns images into tokens, which `images.py` reads."""
DEFAULT_PATTERN = 6
"""One layer in so many sees all tokens, where a config names no types."""


def model_config(config: Fields, dtype: torch.dtype) -> ModelConfig:
    sees_images = config.has("text_config")
    text = config.section("text_config") if sees_images else config
    text.expect("hidden_activation", ["gelu_pytorch_tanh"])
    text.expect("attention_bias", [False])
    text.expect("use_bidirectional_attention", [False])
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        text.expect(name, [])
    shape = shape_of(text)
    num_layers, head_size = int(shape["num_layers"]), int(shape["head_size"])
    if not text.has("layer_types"):
        pattern = text.count("sliding_window_pattern", DEFAULT_PATTERN)
        types = [
            "sliding_attention" if (index + 1) % pattern else "full_attention"
            for index in range(num_layers)
        ]
        text = Fields({**text.values, "layer_types": types}, text.source)
    types = text.texts("layer_types", num_layers)
    image_tokens = IMAGES_AT_ONCE * config.count("mm_tokens_per_image") if sees_images else 0
    return ModelConfig(
        **shape,  # type: ignore[arg-type]  # counts, and one number
        dtype=dtype,
        pattern=("spans",) if sees_images else ("flex",),
        image_vocab_size=image_tokens,
        windows=windows_of(text, num_layers),
        architecture=Architecture(
            ropes=tuple(rope_of(text, head_size, kind) for kind in types),
            head_norms=True,
            sandwich_norms=True,
            activation="gelu_tanh",
            embedding_scale=float(shape["hidden_size"]) ** 0.5,
            tied=True,
        ),
    )


def weights(model: Model, folder: CheckpointFolder) -> Iterator[Weight]:
    config = model.config.model
    there = [prefix for prefix in PREFIXES if any(n.startswith(prefix) for n in folder.tensors)]
    prefix = there[0] if there else PREFIXES[-1]
    yield from ends_of(model, prefix, shift=1.0)
    text = folder.config.section("text_config") if config.image_vocab_size else folder.config
    # Scores are divided by the root of a head's size here, and of this number there.
    scale = (config.head_size / text.number("query_pre_attn_scalar", 256.0)) ** 0.5
    for index, layer in enumerate(model.layers.values()):
        layer = cast(SandwichLayer, layer)
        yield from _layer(layer, f"{prefix}layers.{index}.", config, scale)


def _layer(
    layer: SandwichLayer, prefix: str, config: ModelConfig, scale: float
) -> Iterator[Weight]:
    norms = (
        (layer, "attention_norm", "input_layernorm"),
        (layer, "norm_behind", "post_attention_layernorm"),
        (layer.mlp, "norm", "pre_feedforward_layernorm"),
        (layer.mlp, "norm_behind", "post_feedforward_layernorm"),
    )
    for owner, attribute, name in norms:
        yield one(owner, attribute, f"{prefix}{name}.weight", shift=1.0)
    yield from plain_attention(layer, f"{prefix}self_attn.", config)
    yield from mlp(layer.mlp, f"{prefix}mlp.", config.intermediate_size)
    yield one(layer.attention.norms, "query", f"{prefix}self_attn.q_norm.weight", 1.0, scale)
    yield one(layer.attention.norms, "key", f"{prefix}self_attn.k_norm.weight", 1.0)
