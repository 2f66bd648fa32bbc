"""Gemma 3: sliding windows in most layers, each part of a layer between two norms, and images whose
tokens attend to one another both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch

from solutions.engine.model.architecture import Architecture
from solutions.engine.model.config import ModelConfig
from solutions.engine.model.model import Model

from ...layers.attention import SandwichLayer
from ..fields import Fields
from ..folder import CheckpointFolder
from ..weights import Weight, mlp, one
from .attention import DECODER, HEADS, ends_of, plain_attention, shape_of
from .llama import windows_of
from .ropes import rope_of

ARCHITECTURES = {"Gemma3ForCausalLM": "gemma3_text", "Gemma3ForConditionalGeneration": "gemma3"}
DEFAULTS = {
    **{"vocab_size": 262_208, "hidden_size": 2304, "intermediate_size": 9216},
    **{"num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4},
    **{"head_dim": 256, "max_position_embeddings": 131_072},
    **{"query_pre_attn_scalar": 256, "sliding_window": 4096, "sliding_window_pattern": 6},
}
"""The defaults of a Gemma3TextConfig."""
SERVED = DECODER | {
    "hidden_activation": ["gelu_pytorch_tanh"],
    "use_bidirectional_attention": [False],
    "attn_logit_softcapping": [],
    "final_logit_softcapping": [],
}
TOKENS_PER_IMAGE, IMAGE_TOKEN = 256, 262_144
"""transformers' defaults of `mm_tokens_per_image` and `image_token_index`."""
IMAGES_AT_ONCE = 32
"""The number of images whose tokens the device keeps."""
PREFIXES = ("language_model.model.", "model.language_model.", "model.")
"""Prefixes that the names of the decoder's tensors may have: for checkpoints with images the first
or the second, by the checkpoint's age, and for checkpoints of text alone the last."""
IGNORED = tuple(
    f"{prefix}{part}"
    for prefix in ("", "model.")
    for part in ("vision_tower.", "multi_modal_projector.")
)
"""Prefixes of tensors that the loader skips: those of the modules that turn images into tokens,
which `images.py` reads."""


def model_config(config: Fields, dtype: torch.dtype) -> ModelConfig:
    sees_images = config.has("text_config")
    text = (config.section("text_config") if sees_images else config).with_defaults(DEFAULTS)
    tied = config.flag("tie_word_embeddings", True)
    if sees_images:
        text.expect("model_type", ["gemma3_text"])
        text.expect("tie_word_embeddings", [tied])
    text.expect_all(SERVED)
    shape = shape_of(text)
    num_layers, head_size = int(shape["num_layers"]), int(shape["head_size"])
    if not text.has("layer_types"):
        pattern = text.count("sliding_window_pattern")
        types = [
            "sliding_attention" if (index + 1) % pattern else "full_attention"
            for index in range(num_layers)
        ]
        text = Fields({**text.values, "layer_types": types}, text.source)
    types = text.texts("layer_types", num_layers)
    tokens_per_image = config.count("mm_tokens_per_image", TOKENS_PER_IMAGE)
    return ModelConfig(
        **shape,  # type: ignore[arg-type]  # counts, and one number
        dtype=dtype,
        pattern=("spans",) if sees_images else ("flex",),
        image_vocab_size=IMAGES_AT_ONCE * tokens_per_image if sees_images else 0,
        windows=windows_of(text, num_layers, text.count("sliding_window")),
        architecture=Architecture(
            ropes=tuple(rope_of(text, head_size, kind) for kind in types),
            head_norms=True,
            embedding_scale=float(shape["hidden_size"]) ** 0.5,
            tied=tied,
            attention_layer=SandwichLayer,
        ),
    )


def weights(model: Model, folder: CheckpointFolder) -> Iterator[Weight]:
    config = model.config.model
    there = [prefix for prefix in PREFIXES if any(n.startswith(prefix) for n in folder.tensors)]
    prefix = there[0] if there else PREFIXES[-1]
    heads = [name for name in HEADS if name in folder.tensors]
    yield from ends_of(model, prefix, shift=1.0, head=heads[0] if heads else HEADS[0])
    text = folder.config.section("text_config") if config.image_vocab_size else folder.config
    # This engine divides scores by the root of the head size, and the checkpoint by the root of
    # query_pre_attn_scalar.
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
