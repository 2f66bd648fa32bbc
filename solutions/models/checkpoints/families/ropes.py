"""Reads rotary positions from configs of Hugging Face: the angle by which each pair of numbers of a
head turns from one position to the next."""

from __future__ import annotations

import math

from solutions.engine.model.architecture import Rope

from ..fields import Fields

TYPES = ("default", "linear", "llama3", "yarn")


THETAS = {
    "full_attention": ("rope_theta", 1_000_000.0),
    "sliding_attention": ("rope_local_base_freq", 10_000.0),
}
"""The field of Gemma 3's config that has the theta of each kind of layer, with its default."""


def rope_of(
    config: Fields,
    head_size: int,
    kind_of_layer: str | None = None,
    default_share: float | None = None,
) -> Rope:
    """Returns the rope of all layers, or of the layers of one kind if the config distinguishes
    kinds.

    Reads both forms: `rope_parameters`, and the older `rope_theta` with `rope_scaling`.
    `default_share`: the `partial_rotary_factor` of a config that has none, for a family that
    rotates only a head's first pairs: the pairs after them have frequency 0. Raises ValueError for
    a rope_type that is not served, such as one that depends on a request's length, for missing
    fields, and for a `partial_rotary_factor` that doesn't fit.
    """
    fields, theta = (
        _parameters(config) if kind_of_layer is None else _of_kind(config, kind_of_layer)
    )
    kind = fields.text("rope_type", fields.text("type", "default"))
    if kind not in TYPES:
        raise ValueError(
            f"{fields.source}: rope_type is {kind!r}: this engine serves {', '.join(TYPES)}"
        )
    if default_share is None:
        # transformers has no share for this family, or fails with one.
        fields.expect("partial_rotary_factor", [1.0])
        config.expect("partial_rotary_factor", [1.0])
    share = fields.number(
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
    if kind == "linear":
        plain = [frequency / fields.number("factor") for frequency in plain]
    if kind == "llama3":
        plain = _llama3(plain, fields, config)
    if kind == "yarn":
        plain, factor = _yarn(plain, theta, fields, config)
    still = [0.0] * ((head_size - turned) // 2)
    return Rope(frequencies=(*plain, *still), factor=factor)


def _parameters(config: Fields) -> tuple[Fields, float]:
    """Returns the fields with rope_type and scaling, and theta, of a config with one rope for all
    layers. As in transformers, an old `rope_scaling` wins over `rope_parameters`."""
    fields = Fields({}, config.source)
    for name in ("rope_parameters", "rope_scaling"):
        if config.has(name) and config.section(name).values:
            fields = config.section(name)
    for kind in THETAS:
        fields.expect(kind, [])
    return fields, fields.number("rope_theta", config.number("rope_theta", 10_000.0))


def _of_kind(config: Fields, kind: str) -> tuple[Fields, float]:
    """Returns the fields with rope_type and scaling, and theta, of the layers of one `kind`. An old
    `rope_scaling` counts only for the layers that attend to all tokens."""
    fields = Fields({}, config.source)
    if config.has("rope_parameters"):
        kinds = config.section("rope_parameters")
        if not any(kinds.has(each) for each in THETAS):
            raise ValueError(
                f"{kinds.source} has no {' and no '.join(THETAS)}: transformers reads it by kind "
                "of layer alone"
            )
        if kinds.has(kind):
            fields = kinds.section(kind)
    if kind == "full_attention" and config.has("rope_scaling"):
        scaling = config.section("rope_scaling")
        if scaling.has("type") and not scaling.has("rope_type"):
            raise ValueError(
                f"{scaling.source} has a type and no rope_type, and transformers reads rope_type "
                "alone for this family: rename it"
            )
        fields = Fields({**fields.values, **scaling.values}, scaling.source)
    # For layers by kind, transformers reads this field from another place.
    fields.expect("truncate", [True])
    name, default = THETAS[kind]
    return fields, fields.number("rope_theta", config.number(name, default))


def _llama3(plain: list[float], fields: Fields, config: Fields) -> list[float]:
    """Returns the frequencies `plain` scaled as in Llama 3: those of slow pairs divided by
    `factor`, those of quick pairs as they are, and an interpolation between."""
    factor, length = fields.number("factor"), _original_length(fields, config)
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


def _original_length(fields: Fields, config: Fields) -> int:
    """Returns the length that the model was made for before it was scaled. transformers prefers the
    config's own field to that of the scaling, so the two must agree."""
    name = "original_max_position_embeddings"
    length = fields.count(name, config.count("max_position_embeddings"))
    config.expect(name, [length])
    return length


def _yarn(
    plain: list[float], theta: float, fields: Fields, config: Fields
) -> tuple[list[float], float]:
    """Returns the frequencies `plain` scaled by YaRN, and the factor of cosines and sines, which
    makes attention a little sharper. Scales as Llama 3, but by the number of a pair."""
    fields.expect("mscale", [])
    fields.expect("mscale_all_dim", [])
    factor = fields.number("factor")
    length = _original_length(fields, config)
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
