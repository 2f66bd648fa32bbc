"""Makes a model with the weights of a checkpoint: checks all tensors first, then copies them to the
device, in the order in which they lie in the files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import torch

from solutions.common.decoder.shape import FLOATS
from solutions.engine.model.config import EngineConfig, ModelConfig
from solutions.engine.model.model import Model
from solutions.flex_graph import Limits

from .families import gemma3, llama, mistral, qwen2, qwen3, qwen3_next
from .families.attention import HEADS
from .fields import Fields
from .folder import DTYPES, CheckpointFolder, Stored
from .to_device import TensorStream, same_bytes, tensor_stream
from .weights import Source, Weight

FAMILIES = (llama, mistral, qwen2, qwen3, qwen3_next, gemma3)
FAMILY_OF: Mapping[str, ModuleType] = {
    architecture: family for family in FAMILIES for architecture in family.ARCHITECTURES
}
DTYPE_NAMES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
IGNORED_ENDS = ("rotary_emb.inv_freq",)
"""Ends of the names of tensors that the loader skips: old checkpoints store them, although they
follow from the config."""

Progress = Callable[[int, int], object]
"""A function that is called with two numbers of bytes: those that are on the device, and those of
all tensors."""


def family_of(folder: CheckpointFolder) -> ModuleType:
    """Returns the module of the checkpoint's model family, such as `llama`. Raises ValueError for
    an unknown architecture, for a model_type or text_config that doesn't belong to it, and for
    quantised weights."""
    config = folder.config
    names = config.values.get("architectures")
    if not isinstance(names, list) or not names:
        raise config.wrong("architectures", "a list with a name")
    if names[0] not in FAMILY_OF:
        raise ValueError(
            f"{config.source}: architecture {names[0]!r} is unknown: this engine serves "
            f"{', '.join(FAMILY_OF)}"
        )
    family = FAMILY_OF[names[0]]
    config.expect("model_type", [family.ARCHITECTURES[names[0]]])
    has_text = names[0] == "Gemma3ForConditionalGeneration"
    if not has_text:
        config.expect("text_config", [])
    for part in [config, config.section("text_config")] if has_text else [config]:
        if part.has("quantization_config"):
            raise ValueError(
                f"{part.source} has a quantization_config: this engine serves bfloat16, float16 "
                "and float32, so take the checkpoint that was not quantised"
            )
    return family


def model_config_of(folder: CheckpointFolder, dtype: torch.dtype | None = None) -> ModelConfig:
    """Returns the ModelConfig that a folder's config describes, in `dtype`, by default that of the
    config. Raises ValueError for an invalid config, and for features that this engine doesn't
    serve."""
    family = family_of(folder)
    config = folder.config
    if dtype is None:
        name = config.text("dtype", config.text("torch_dtype", "bfloat16"))
        if name not in DTYPE_NAMES:
            raise config.wrong("dtype", " or ".join(DTYPE_NAMES))
        dtype = DTYPE_NAMES[name]
    if dtype not in FLOATS:
        raise ValueError(f"dtype {dtype}: use bfloat16, float16 or float32")
    try:
        return family.model_config(config, dtype)
    except ValueError as error:
        # The errors of a ModelConfig don't name the file.
        where = "" if config.source in str(error) else f"{config.source}: "
        raise ValueError(f"{where}{error}") from None


def _text_of(folder: CheckpointFolder) -> Fields:
    """Returns the part of the config that describes the decoder."""
    config = folder.config
    return config.section("text_config") if config.has("text_config") else config


def _assumed(folder: CheckpointFolder) -> str:
    """Returns the end of an error message about a tensor that doesn't fit: the sizes that the
    config leaves out, with their defaults. Empty if it leaves out none."""
    text, defaults = _text_of(folder), family_of(folder).DEFAULTS
    sizes = [f"{name} {defaults[name]}" for name in defaults if name not in text.values]
    return (
        f" ({text.source} leaves out, and so has by default: {', '.join(sizes)})" if sizes else ""
    )


def limits_for(folder: CheckpointFolder, **sizes: int) -> Limits:
    """Returns limits for a checkpoint: 8 requests of up to 4096 tokens, or the model's longest text
    if that is less, and blocks for all of them. `sizes` overrides these. Raises ValueError for
    requests that are longer than the model's longest text."""
    text = _text_of(folder).with_defaults(family_of(folder).DEFAULTS)
    longest = text.count("max_position_embeddings")
    chosen = {"max_num_seqs": 8, "max_num_batched_tokens": 2048} | sizes
    chosen.setdefault("max_model_len", min(longest, 4096))
    if chosen["max_model_len"] > longest:
        raise ValueError(
            f"max_model_len {chosen['max_model_len']}: {text.source} has max_position_embeddings "
            f"{longest}, ask for no more"
        )
    pages = -(-chosen["max_model_len"] // chosen.get("block_size", 16))
    chosen.setdefault("num_gpu_blocks", 1 + chosen["max_num_seqs"] * pages)
    return Limits(**chosen)


class Place(NamedTuple):
    """A stored tensor and its destination: the weight that it fills, and where."""

    stored: Stored
    source: Source
    weight: Weight
    first: int
    """The index of the first number that the tensor fills, in the weight's order in memory."""


def load_model(
    folder: CheckpointFolder,
    config: EngineConfig,
    device: torch.device,
    progress: Progress = lambda done, total: None,
) -> Model:
    """Returns a model with its weights on `device`. Its caches have no memory: an engine makes its
    own.

    Raises ValueError, with nothing on the device, for a checkpoint that lacks a tensor, has one too
    many, or has one of another shape or type.
    """
    model = Model(config, torch.device("meta"))
    weights = list(family_of(folder).weights(model, folder))
    places = _places(folder, weights, model.config.model.architecture.tied)
    total = sum(place.stored.nbytes for place in places)
    filled: dict[tuple[int, str], torch.Tensor] = {}
    with tensor_stream(device) as stream:
        for place in places:
            weight = place.weight
            key = (id(weight.owner), weight.attribute)
            if key not in filled:
                filled[key] = _memory_for(weight, device)
            _fill(filled[key].view(-1), place, stream)
            progress(stream.num_bytes, total)
    for weight in weights:
        setattr(weight.owner, weight.attribute, filled[id(weight.owner), weight.attribute])
    model.device = device
    model.tie()
    return model


def _places(folder: CheckpointFolder, weights: list[Weight], is_tied: bool) -> list[Place]:
    """Returns the destination of each tensor, in the order of the files. `is_tied`: the head is the
    embedding, so a copy of the embedding may be stored as the head. Raises ValueError for a tensor
    that is missing, unknown, or of a wrong shape or type."""
    places, used = [], set()
    for weight in weights:
        first = 0
        for source in weight.sources:
            stored = _checked(folder, source)
            used.add(source.name)
            places.append(Place(stored, source, weight, first))
            whole = source.rearrange is None
            first += math.prod(source.shape) if whole else _size_of(source)
        assert first <= weight.shape.numel(), f"{weight.attribute} has room for its sources"
    ignored = getattr(family_of(folder), "IGNORED", ())
    for name in folder.tensors:
        if name in used or name.startswith(ignored) or name.endswith(IGNORED_ENDS):
            continue
        if is_tied and name in HEADS:
            _check_tied(folder, folder.tensors[name], weights)
            continue
        raise ValueError(
            f"tensor {name} of {folder.tensors[name].path.name} has no place in a "
            f"{folder.config.values['architectures'][0]} of this config"  # type: ignore[index]  # a list with a name
        )
    return sorted(places, key=lambda place: (place.stored.path, place.stored.begin))


def _check_tied(folder: CheckpointFolder, head: Stored, weights: list[Weight]) -> None:
    """Raises ValueError unless the stored head is the embedding."""
    (embedding,) = (each.sources[0] for each in weights if each.attribute == "embedding")
    stored = folder.tensors[embedding.name]
    if (head.dtype, head.shape) != (stored.dtype, stored.shape) or not same_bytes(head, stored):
        raise ValueError(
            f"tensor {head.name} of {head.path.name} differs from {stored.name}, and "
            f"{folder.config.source} has tie_word_embeddings true: set it to false for a head of "
            "its own"
        )


def _size_of(source: Source) -> int:
    """Returns how many numbers a tensor has after its rearrangement, which is tried on a tensor
    without memory."""
    assert source.rearrange is not None
    return source.rearrange(torch.empty(source.shape, device="meta")).numel()


def _checked(folder: CheckpointFolder, source: Source) -> Stored:
    stored = folder.tensors.get(source.name)
    if stored is None:
        raise ValueError(f"tensor {source.name} is missing in {folder.path}{_assumed(folder)}")
    if stored.shape != source.shape:
        raise ValueError(
            f"tensor {source.name} of {stored.path.name} is {list(stored.shape)}: by "
            f"{folder.config.source} it must be {list(source.shape)}{_assumed(folder)}"
        )
    if stored.dtype not in DTYPES:
        raise ValueError(
            f"tensor {source.name} of {stored.path.name} is of {stored.dtype}: this engine serves "
            f"{', '.join(DTYPES)}"
        )
    return stored


def _memory_for(weight: Weight, device: torch.device) -> torch.Tensor:
    num_filled = sum(
        math.prod(source.shape) if source.rearrange is None else _size_of(source)
        for source in weight.sources
    )
    make = torch.empty if num_filled == weight.shape.numel() else torch.zeros
    return make(weight.shape, dtype=weight.dtype, device=device)


def _fill(numbers: torch.Tensor, place: Place, stream: TensorStream) -> None:
    """Copies a stored tensor to its part of a weight's `numbers`: directly from the file if the
    stored numbers need no change."""
    stored, source, weight = place.stored, place.source, place.weight
    is_computed = source.rearrange is not None or weight.shift or weight.scale != 1.0
    if not is_computed and DTYPES[stored.dtype] == weight.dtype:
        part = numbers[place.first : place.first + math.prod(stored.shape)]
        stream.read_into(stored, part.view(torch.uint8))
        return
    values = stream.read(stored)
    if source.rearrange is not None:
        values = source.rearrange(values)
    if weight.dtype == torch.float32:
        values = values.float()
        if weight.shift or weight.scale != 1.0:
            values = (values + weight.shift) * weight.scale
    values = values.reshape(-1)
    numbers[place.first : place.first + len(values)].copy_(values)


def read_folder(path: str | Path) -> CheckpointFolder:
    """Reads the folder of a checkpoint. Raises TypeError for anything but a path, ValueError for a
    broken folder."""
    if not isinstance(path, str | Path):
        raise TypeError(f"the folder is {path!r}: give the path of a checkpoint's folder")
    return CheckpointFolder.read(Path(path).expanduser())
