"""Qwen3-Next: Gated DeltaNet in most layers, gated attention in the rest, experts in all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch

from solutions.engine.model.architecture import Architecture
from solutions.engine.model.config import LayerKind, ModelConfig
from solutions.engine.model.layers import AttentionLayer, GatedDeltaNetLayer
from solutions.engine.model.model import Model

from ...layers.attention import GatedAttentionLayer
from ...layers.experts import Experts, ExpertShape
from ..fields import Fields
from ..folder import CheckpointFolder
from ..weights import Rearrange, Source, Weight, one, rows
from .attention import DECODER, ends_of, shape_of
from .ropes import rope_of

ARCHITECTURES = {"Qwen3NextForCausalLM": "qwen3_next"}
DEFAULTS = {
    **{"vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 5632},
    **{"num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2},
    **{"head_dim": 256, "max_position_embeddings": 32_768, "full_attention_interval": 4},
    **{"linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_conv_kernel_dim": 4},
    **{"linear_key_head_dim": 128, "linear_value_head_dim": 128},
    **{"num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512},
    "shared_expert_intermediate_size": 512,
}
SERVED = DECODER | {
    "hidden_act": ["silu"],
    "decoder_sparse_step": [1],
    "mlp_only_layers": [[]],
    # The sizes that the kernels of Gated DeltaNet support.
    "linear_key_head_dim": [16, 32, 64, 128],
    "linear_value_head_dim": [16, 32, 64, 128],
    "linear_conv_kernel_dim": [2, 3, 4],
}
KINDS: dict[str, LayerKind] = {"linear_attention": "gdn", "full_attention": "flex"}
IGNORED = ("mtp.",)
"""Prefixes of tensors that the loader skips: those of the layers that draft tokens, which this
engine doesn't serve."""


def model_config(config: Fields, dtype: torch.dtype) -> ModelConfig:
    config = config.with_defaults(DEFAULTS)
    config.expect_all(SERVED)
    shape = shape_of(config)
    num_layers, interval = int(shape["num_layers"]), config.count("full_attention_interval")
    types = [
        "linear_attention" if (index + 1) % interval else "full_attention"
        for index in range(num_layers)
    ]
    if config.has("layer_types"):
        types = config.texts("layer_types", num_layers)
    for index, kind in enumerate(types):
        if kind not in KINDS:
            raise ValueError(
                f"{config.source}: layer_types has {kind!r} at layer {index}: this engine serves "
                f"{' and '.join(KINDS)} there"
            )
    experts = ExpertShape(
        num_experts=config.count("num_experts"),
        experts_per_token=config.count("num_experts_per_tok"),
        expert_size=config.count("moe_intermediate_size"),
        shared_size=config.count("shared_expert_intermediate_size"),
        normalised=config.flag("norm_topk_prob", True),
    )
    rope = rope_of(config, int(shape["head_size"]), default_share=0.25)
    return ModelConfig(
        **shape,  # type: ignore[arg-type]  # counts, and one number
        dtype=dtype,
        pattern=tuple(KINDS[kind] for kind in types),
        gdn_k_heads=config.count("linear_num_key_heads"),
        gdn_v_heads=config.count("linear_num_value_heads"),
        gdn_head_size=config.count("linear_key_head_dim"),
        gdn_value_size=config.count("linear_value_head_dim"),
        gdn_conv_width=config.count("linear_conv_kernel_dim"),
        architecture=Architecture(
            ropes=(rope,),
            head_norms=True,
            tied=config.flag("tie_word_embeddings", False),
            attention_layer=GatedAttentionLayer,
            mlp=experts,
        ),
    )


def weights(model: Model, folder: CheckpointFolder) -> Iterator[Weight]:
    config = model.config.model
    yield from ends_of(model, "model.", shift=1.0)
    for index, layer in enumerate(model.layers.values()):
        prefix = f"model.layers.{index}."
        if isinstance(layer, GatedDeltaNetLayer):
            yield one(layer, "norm", f"{prefix}input_layernorm.weight", shift=1.0)
            yield from _delta_net(layer, f"{prefix}linear_attn.", config)
        else:
            yield one(layer, "attention_norm", f"{prefix}input_layernorm.weight", shift=1.0)
            yield from _attention(layer, f"{prefix}self_attn.", config)
        experts = cast(Experts, layer.mlp)
        yield one(experts, "norm", f"{prefix}post_attention_layernorm.weight", shift=1.0)
        yield from _experts(experts, f"{prefix}mlp.")


def _attention(layer: AttentionLayer, prefix: str, config: ModelConfig) -> Iterator[Weight]:
    """Yields the projections of an attention layer. They are rearranged so that the two numbers of
    a rotated pair are half a head apart, as everywhere in this engine. Queries and keys are
    rearranged alike, so that their products stay the same."""
    size, hidden, heads = config.head_size, config.hidden_size, config.num_heads
    turned = 2 * sum(frequency > 0 for frequency in config.architecture.ropes[0].frequencies)

    def spread(heads_last: torch.Tensor) -> torch.Tensor:
        """Reorders the numbers of each head in [heads, size, …]: half of those that are rotated,
        half of the rest, then the other half of each."""
        first, second, rest = heads_last.split([turned // 2, turned // 2, size - turned], dim=1)
        of_first, of_second = (
            rest.split((size - turned) // 2, dim=1) if turned < size else (rest,) * 2
        )
        return torch.cat([first, of_first, second, of_second], 1)

    def part(number: int) -> Rearrange:
        return lambda stored: stored.view(heads, 2, size, hidden)[:, number]

    of_keys = config.num_kv_heads * size
    stored = (2 * config.query_size, hidden)
    name = f"{prefix}q_proj.weight"
    sources = (
        Source(name, stored, lambda stored: spread(part(0)(stored))),
        Source(
            f"{prefix}k_proj.weight",
            (of_keys, hidden),
            lambda stored: spread(stored.view(-1, size, hidden)),
        ),
        Source(f"{prefix}v_proj.weight", (of_keys, hidden)),
        Source(name, stored, part(1)),
    )
    yield Weight(layer, "qkv_proj", sources)
    yield one(layer, "o_proj", f"{prefix}o_proj.weight")
    for attribute, norm in (("query", "q_norm"), ("key", "k_norm")):
        source = Source(f"{prefix}{norm}.weight", (size,), lambda stored: spread(stored[None]))
        yield Weight(layer.attention.norms, attribute, (source,), shift=1.0)


def _delta_net(layer: GatedDeltaNetLayer, prefix: str, config: ModelConfig) -> Iterator[Weight]:
    """Yields the weights of a Gated DeltaNet layer. A checkpoint stores its projections key head by
    key head, each with its value heads; here all queries come first, then all keys, values and
    gates."""
    net = layer.delta_net
    gdn, hidden = net.config, config.hidden_size
    group = gdn.num_v_heads // gdn.num_k_heads
    sizes = [gdn.head_k_dim, gdn.head_k_dim, group * gdn.head_v_dim, group * gdn.head_v_dim]

    def by_kind(sizes: list[int]) -> Rearrange:
        def rearrange(stored: torch.Tensor) -> torch.Tensor:
            parts = stored.view(gdn.num_k_heads, -1, hidden).split(sizes, dim=1)
            return torch.cat([part.reshape(-1, hidden) for part in parts])

        return rearrange

    for attribute, of_head in (("in_proj_qkvz", sizes), ("in_proj_ba", [group, group])):
        shape = tuple(getattr(net, attribute).shape)
        source = Source(f"{prefix}{attribute}.weight", shape, by_kind(of_head))
        yield Weight(net, attribute, (source,))
    conv = (gdn.conv_dim, 1, gdn.conv_width)
    yield Weight(net, "conv_weight", (Source(f"{prefix}conv1d.weight", conv),))
    yield one(net, "A_log", f"{prefix}A_log")
    yield one(net, "dt_bias", f"{prefix}dt_bias")
    yield one(net, "norm_weight", f"{prefix}norm.weight")
    yield one(net, "out_proj", f"{prefix}out_proj.weight")


def _experts(experts: Experts, prefix: str) -> Iterator[Weight]:
    shape = experts.shape
    numbers, hidden = range(shape.num_experts), len(experts.norm)
    yield one(experts, "router", f"{prefix}gate.weight")
    gates = {
        f"{prefix}experts.{number}.{name}.weight": shape.expert_size
        for number in numbers
        for name in ("gate_proj", "up_proj")
    }
    yield rows(experts, "gate_up", gates)
    down = {f"{prefix}experts.{number}.down_proj.weight": hidden for number in numbers}
    yield rows(experts, "down", down)
    shared = {
        f"{prefix}shared_expert.{name}.weight": shape.shared_size
        for name in ("gate_proj", "up_proj")
    }
    yield rows(experts, "shared_gate_up", shared)
    yield one(experts, "shared_down", f"{prefix}shared_expert.down_proj.weight")
    yield one(experts, "shared_gate", f"{prefix}shared_expert_gate.weight")
