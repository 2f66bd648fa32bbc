"""Images of a prompt: transformers' vision tower turns each into tokens, which lie after the
embeddings of text until another image takes their place."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch

from debubble.contract.packages.installed import installed
from solutions.engine.model.model import Model
from solutions.pinned_h2d.ranges import Span

from .families.gemma3 import IMAGE_TOKEN, TOKENS_PER_IMAGE
from .folder import CheckpointFolder
from .to_device import tensor_stream

PARTS = ("vision_tower.", "multi_modal_projector.")


class ImagePrompt(NamedTuple):
    """A prompt with images, as `add_request` takes it."""

    tokens: list[int]
    images: list[Span]
    image_names: dict[int, bytes]
    """The hash of each image's pixels, by the first id of the image's tokens."""


class ImageTower:
    """The vision tower of a checkpoint, which turns images into tokens of the embedding. Raises
    ImportError without transformers, and ValueError for a checkpoint that has no vision tower."""

    def __init__(self, folder: CheckpointFolder, model: Model) -> None:
        if not model.config.model.image_vocab_size:
            raise ValueError(f"{folder.path} is a model of text alone: give it no images")
        if installed("transformers") is None:
            raise ImportError(
                "images need the vision tower of transformers: pip install 'transformers>=5.17'"
            )
        self.model = model
        config = folder.config
        self.tokens_per_image = config.count("mm_tokens_per_image", TOKENS_PER_IMAGE)
        by_its_other_name = config.count("image_token_id", IMAGE_TOKEN)
        self.image_token = config.count("image_token_index", by_its_other_name)
        vocab_size, num_rows = model.config.model.vocab_size, model.config.model.image_vocab_size
        self._first_ids = range(vocab_size, vocab_size + num_rows, self.tokens_per_image)
        self._places: OrderedDict[bytes, int] = OrderedDict()
        """The first id of each image whose tokens the device has, by the hash of its pixels, least
        recently used first."""
        self._vision, self._projector = _modules(folder, model)

    @torch.no_grad()
    def prompt(
        self, input_ids: Sequence[int], pixel_values: torch.Tensor, in_use: Collection[int]
    ) -> ImagePrompt:
        """Returns a prompt for `add_request`. `input_ids` come from the processor of transformers,
        which has put `image_token` as often as an image has tokens; `pixel_values` [images, 3,
        size, size] are on the host.

        `in_use`: ids of requests that are being served, whose images stay. Raises ValueError for
        another number of image tokens, and if there is no room for the images.
        """
        tokens, spans = list(input_ids), _runs(input_ids, self.image_token)
        size = self.tokens_per_image
        wrong = [span for span in spans if span[1] + 1 - span[0] != size]
        if wrong or len(spans) != len(pixel_values):
            found = [end + 1 - start for start, end in spans]
            raise ValueError(
                f"{len(pixel_values)} images for runs of {found} image tokens: each image has "
                f"{size}"
            )
        kept = {token for token in in_use if token >= self._first_ids.start}
        for (start, end), pixels in zip(spans, pixel_values, strict=True):
            first = self._place_of(pixels, kept)
            tokens[start : end + 1] = range(first, first + size)
            kept.update(tokens[start : end + 1])
        names = {first: name for name, first in self._places.items()}
        return ImagePrompt(tokens, spans, names)

    def _place_of(self, pixels: torch.Tensor, kept: Collection[int]) -> int:
        """Returns the first id of the image's tokens, and computes them unless the device has them.
        They may replace an image none of whose ids are in `kept`. Raises ValueError if there is no
        such image and no room."""
        name = hashlib.sha256(pixels.contiguous().float().numpy().tobytes()).digest()
        if name in self._places:
            self._places.move_to_end(name)
            return self._places[name]
        first = self._free_place(kept)
        device, dtype = self.model.device, self.model.config.model.dtype
        seen = self._vision(pixel_values=pixels[None].to(device, dtype)).last_hidden_state
        features = self._projector(seen)[0]
        self.model.embedding[first : first + self.tokens_per_image].copy_(features)
        self._places[name] = first
        return first

    def _free_place(self, kept: Collection[int]) -> int:
        taken = set(self._places.values())
        for first in self._first_ids:
            if first not in taken:
                return first
        for name, first in self._places.items():
            if first not in kept:
                del self._places[name]
                return first
        raise ValueError(
            f"{len(self._first_ids)} images are in use: there is room for no other one until a "
            "request has ended"
        )


def _runs(ids: Sequence[int], image_token: int) -> list[Span]:
    """Returns the first and last position of each run of consecutive `image_token`s in `ids`."""
    spans: list[Span] = []
    for position, token in enumerate(ids):
        if token != image_token:
            continue
        if spans and spans[-1][1] == position - 1:
            spans[-1] = (spans[-1][0], position)
        else:
            spans.append((position, position))
    return spans


def _modules(folder: CheckpointFolder, model: Model) -> tuple[Any, Any]:
    """Returns the vision tower and the projector of its output, on the device, with their weights.
    Raises ValueError if the folder doesn't describe them, or lacks one of their tensors."""
    from transformers import AutoConfig, AutoModel
    from transformers.models.gemma3.modeling_gemma3 import Gemma3MultiModalProjector

    try:
        config = AutoConfig.from_pretrained(folder.path, local_files_only=True)
        # On the meta device, without memory: all weights are replaced.
        with torch.device("meta"):
            vision = AutoModel.from_config(config.vision_config)
            projector = Gemma3MultiModalProjector(config)
    except Exception as error:
        reason = str(error).partition("\n")[0][:160]
        raise ValueError(f"{folder.config.source} describes no vision tower: {reason}") from None
    with tensor_stream(model.device) as stream:
        for module, prefix in zip((vision, projector), PARTS, strict=True):
            _fill(module, prefix, folder, model, stream)
    return vision, projector


def _fill(module: Any, prefix: str, folder: CheckpointFolder, model: Model, stream: Any) -> None:
    dtype = model.config.model.dtype
    there = {
        name.partition(prefix)[2].removeprefix("vision_model."): stored
        for name, stored in folder.tensors.items()
        if prefix in name
    }
    state = {}
    for name, empty in module.state_dict().items():
        stored = there.get(name.removeprefix("vision_model."))
        if stored is None:
            raise ValueError(f"tensor {prefix}{name} is missing in {folder.path}")
        if stored.shape != tuple(empty.shape):
            raise ValueError(
                f"tensor {stored.name} of {stored.path.name} is {list(stored.shape)}: by "
                f"{folder.config.source} it must be {list(empty.shape)}"
            )
        state[name] = stream.read(stored).to(dtype)
    module.load_state_dict(state, assign=True)
    for name, buffer in module.named_buffers():
        # Position ids, which no file has.
        if buffer.is_meta:
            owner, _, last = name.rpartition(".")
            positions = torch.arange(buffer.numel(), device=model.device).view(buffer.shape)
            setattr(module.get_submodule(owner), last, positions)
    module.eval()
