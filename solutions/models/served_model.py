"""A checkpoint on an engine: takes text and images, and returns text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import torch

from solutions.engine.engine import Engine
from solutions.engine.requests.request import SamplingParams
from solutions.engine.requests.turns import turn_of

from .checkpoints.images import ImagePrompt, ImageTower
from .checkpoints.load import read_folder
from .pretrained import from_pretrained
from .text.stream import stream_text
from .text.tokenizer import Messages, Tokenizer


class ServedModel:
    """A checkpoint's folder and an engine with its weights, by default one that `from_pretrained`
    makes. Raises the errors of `from_pretrained`."""

    def __init__(self, folder: str | Path, engine: Engine | None = None) -> None:
        self.engine = from_pretrained(folder) if engine is None else engine
        self.checkpoint = read_folder(folder)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the checkpoint. Raises ValueError for a checkpoint without a tokenizer;
        ImportError without transformers."""
        return Tokenizer(self.checkpoint.path)

    @cached_property
    def images(self) -> ImageTower:
        """The vision tower of the checkpoint. Raises ValueError for a model of text; ImportError
        without transformers."""
        return ImageTower(self.checkpoint, self.engine.model)

    def image_prompt(self, input_ids: Sequence[int], pixel_values: torch.Tensor) -> ImagePrompt:
        """Returns a prompt with images, for `add_request`. Takes what the processor of transformers
        returns: ids [tokens], and pixels [images, 3, size, size] on the host. Add the request
        before you make another prompt with images: only until then its images are sure to stay on
        the device."""
        with turn_of(self.engine, "image_prompt"):
            in_use = {token for request in self.engine.requests for token in request.prompt}
            return self.images.prompt(input_ids, pixel_values, in_use)

    def stream(
        self,
        prompt: str | Messages,
        sampling: SamplingParams | None = None,
        *,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """Yields the answer to a text, or to messages by the checkpoint's chat template, as text,
        part by part. It ends before the first of the `stop` strings. Closing the iterator cancels
        the request. Other requests share its steps, and the engine's next `step` reports them."""
        sampling = SamplingParams() if sampling is None else sampling
        return stream_text(self.engine, self.tokenizer, prompt, sampling, stop)
