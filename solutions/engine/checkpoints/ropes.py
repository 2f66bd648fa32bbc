"""How far each pair of a head turns a token, as configs of Hugging Face say it."""

from __future__ import annotations

import math

from ..model.architecture import Rope
from .fields import Fields

TYPES = ("default", "linear", "llama3", "yarn")


def rope_of(
    config: Fields,
    head_size: int,
    kind_of_layer: str | None = None,
    default_share: float | None = None,
) -> Rope:
    """The rope of all layers, or of those of one kind where the config says it kind by kind.

    Both forms are read: `rope_parameters`, and `rope_theta` with `rope_scaling` as it was before.
    A `partial_rotary_factor` turns a head's first pairs alone: those behind have frequency 0.
    ValueError for a type that depends on a request's length, and for fields that it lacks.
    """
    fields, theta = _parameters(config, kind_of_layer)
    kind = "default"
    if fields is not None:
        kind = fields.text("rope_type", fields.text("type", "default"))
        if kind not in TYPES:
            raise ValueError(
                f"{fields.source}: rope_type is {kind!r}: this engine serves {', '.join(TYPES)}"
            )
    share = (config if fields is None else fields).number(
        "partial_rotary_factor", config.number("partial_rotary_factor", default_share or 1.0)
    )
    turned = int(head_size * share)
    if turned > head_size or turned < 2 or turned % 2:
        raise ValueError(
            f"{config.source}: partial_rotary_factor {share} turns {turned} numbers of a head of "
            f"{head_size}: it must be an even number of them"
        )
    plain = [theta ** (-2 * pair / turned) for pair in range(turned // 2)]
    factor = 1.0
    if fields is not None and kind == "linear":
        plain = [frequency / fields.number("factor") for frequency in plain]
    if fields is not None and kind == "llama3":
        plain = _llama3(plain, fields)
    if fields is not None and kind == "yarn":
        plain, factor = _yarn(plain, theta, fields, config)
    still = [0.0] * ((head_size - turned) // 2)
    return Rope(frequencies=(*plain, *still), factor=factor)


def _parameters(config: Fields, kind_of_layer: str | None) -> tuple[Fields | None, float]:
    """Where type and scaling stand, or None, and theta."""
    if config.has("rope_parameters"):
        fields = config.section("rope_parameters")
        if kind_of_layer is not None and fields.has(kind_of_layer):
            fields = fields.section(kind_of_layer)
        return fields, fields.number("rope_theta", config.number("rope_theta", 10_000.0))
    if kind_of_layer == "sliding_attention":
        # Gemma 3 has a theta of its own there, and never a scaling.
        return None, config.number("rope_local_base_freq", 10_000.0)
    default = 1_000_000.0 if kind_of_layer is not None else 10_000.0
    scaling = config.section("rope_scaling") if config.has("rope_scaling") else None
    return scaling, config.number("rope_theta", default)


def _llama3(plain: list[float], fields: Fields) -> list[float]:
    """Slow pairs are slowed down by `factor`, quick ones left as they are, and those between go
    over from the one to the other."""
    factor, length = fields.number("factor"), fields.count("original_max_position_embeddings")
    low, high = fields.number("low_freq_factor"), fields.number("high_freq_factor")
    if high <= low:
        raise ValueError(
            f"{fields.source}: high_freq_factor {high} must be above low_freq_factor {low}"
        )
    scaled = []
    for frequency in plain:
        turns = length * frequency / (2 * math.pi)
        share = min(max((turns - low) / (high - low), 0.0), 1.0)
        scaled.append(frequency / factor * (1 - share) + frequency * share)
    return scaled


def _yarn(
    plain: list[float], theta: float, fields: Fields, config: Fields
) -> tuple[list[float], float]:
    """YaRN: the same idea by the number of a pair, and attention that is a little sharper."""
    fields.expect("mscale", [])
    fields.expect("mscale_all_dim", [])
    factor = fields.number("factor")
    length = fields.count(
        "original_max_position_embeddings", config.count("max_position_embeddings")
    )
    size = 2 * len(plain)

    def pair_that_turns(times: float) -> float:
        return size * math.log(length / (times * 2 * math.pi)) / (2 * math.log(theta))

    low = pair_that_turns(fields.number("beta_fast", 32.0))
    high = pair_that_turns(fields.number("beta_slow", 1.0))
    if fields.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    width = high - low or 0.001
    scaled = []
    for pair, frequency in enumerate(plain):
        slowed = min(max((pair - low) / width, 0.0), 1.0)
        scaled.append(frequency / factor * slowed + frequency * (1 - slowed))
    sharper = 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
    return scaled, fields.number("attention_factor", sharper)
