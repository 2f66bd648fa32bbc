"""A checkpoint on an engine: takes text and images, and returns text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from solutions.engine.engine import Engine
from solutions.engine.requests.request import SamplingParams
from solutions.engine.requests.turns import turn_of

from .checkpoints.generation import sampling_of
from .checkpoints.images import ImagePrompt, ImageTower
from .checkpoints.load import read_folder
from .pretrained import from_pretrained
from .text.stream import stream_text
from .text.tokenizer import Encoding, Prompt, Tokenizer


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

    def sampling(self, **changes: object) -> SamplingParams:
        """Returns the checkpoint's own sampling parameters, from its generation_config.json, with
        `changes`, which are fields of SamplingParams. Raises ValueError for a broken file."""
        kept: Any = changes
        return replace(sampling_of(self.checkpoint.path), **kept)

    def stream(
        self,
        prompt: Prompt,
        sampling: SamplingParams | None = None,
        *,
        stop: Sequence[str] = (),
        special_tokens: bool = True,
        chat_template_kwargs: Mapping[str, object] | None = None,
    ) -> Iterator[str]:
        """Yields the answer to a text, to ids, or to messages by the checkpoint's chat template, as
        text, part by part. It ends before the first of the `stop` strings. Closing the iterator
        cancels the request. Other requests share its steps, and the engine's next `step` reports
        them.

        `sampling`: by default the checkpoint's own. `special_tokens`: whether a text gets the
        tokenizer's special tokens. `chat_template_kwargs`: arguments of the chat template, such as
        {"enable_thinking": False} for Qwen3.
        """
        how = Encoding(
            special_tokens=special_tokens, chat_template_kwargs=chat_template_kwargs or {}
        )
        sampling = self.sampling() if sampling is None else sampling
        return stream_text(self.engine, self.tokenizer, prompt, sampling, stop, how=how)
