"""The part of an engine that serves checkpoints: it takes text and images, and returns text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch

from debubble.accelerator import current
from solutions.engine.model.config import EngineConfig
from solutions.engine.model.model import Model
from solutions.engine.optimizations import Optimizations
from solutions.engine.requests.request import Request, SamplingParams
from solutions.engine.requests.turns import TakesTurns, in_turn
from solutions.flex_graph import Limits
from solutions.sync_free import DataParallelGroup

from ..checkpoints.folder import CheckpointFolder
from ..checkpoints.images import ImagePrompt, ImageTower
from ..checkpoints.load import Progress, limits_for, load_model, model_config_of, read_folder
from .stream import stream_text
from .tokenizer import Messages, Tokenizer


class CheckpointEngine(TakesTurns, ABC):
    """A base class that adds text and images to an engine of ids."""

    config: EngineConfig
    model: Model
    folder: Path | None = None
    """The folder of the checkpoint that it serves, or None."""
    num_streamed = 0
    """Tokens of the last answer that was streamed."""

    @abstractmethod
    def __init__(
        self,
        config: EngineConfig,
        optimizations: Optimizations | None = None,
        *,
        model: Model | None = None,
        group: DataParallelGroup | None = None,
    ) -> None: ...

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        optimizations: Optimizations | None = None,
        *,
        dtype: torch.dtype | None = None,
        group: DataParallelGroup | None = None,
        progress: Progress = lambda done, total: None,
        **sizes: object,
    ) -> Self:
        """Makes an engine with the weights of a checkpoint, as Hugging Face's `save_pretrained`
        writes it: of Llama 3, Qwen3, Qwen3-Next or Gemma 3.

        `dtype`: by default that of the config. `sizes`: fields of Limits, such as max_num_seqs or
        max_model_len, and of EngineConfig, such as num_cpu_blocks. `progress` is called with the
        number of bytes on the device, and of all bytes. Raises ValueError or TypeError, with
        nothing left on the device, which names the file, the tensor or the field that is broken,
        missing, or not served.
        """
        checkpoint = read_folder(folder)
        config = _config_of(checkpoint, dtype, sizes)
        model = load_model(checkpoint, config, current().device, progress)
        engine = cls(config, optimizations, model=model, group=group)
        engine.folder = checkpoint.path
        return engine

    @staticmethod
    def config_of(
        folder: str | Path, dtype: torch.dtype | None = None, **sizes: object
    ) -> EngineConfig:
        """Returns the config that `from_pretrained` would make its engine with, and loads no
        tensor. Raises the same errors, but for those of tensors."""
        return _config_of(read_folder(folder), dtype, sizes)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the checkpoint. Raises ValueError for an engine with random weights, and
        for a checkpoint without a tokenizer; ImportError without transformers."""
        if self.folder is None:
            raise ValueError("this engine has random weights and no tokenizer: give it ids")
        return Tokenizer(self.folder)

    @cached_property
    def images(self) -> ImageTower:
        """The vision tower of the checkpoint. Raises ValueError for an engine with random weights
        and for a model of text; ImportError without transformers."""
        if self.folder is None:
            raise ValueError("this engine has random weights and no vision tower")
        return ImageTower(read_folder(self.folder), self.model)

    @in_turn
    def image_prompt(self, input_ids: Sequence[int], pixel_values: torch.Tensor) -> ImagePrompt:
        """Returns a prompt with images, for `add_request`. Takes what the processor of transformers
        returns: ids [tokens], and pixels [images, 3, size, size] on the host. Add the request
        before you make another prompt with images: only until then its images are sure to stay on
        the device."""
        in_use = {token for request in self.requests for token in request.prompt}
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
        the request. Other requests share its steps, and the next `step` reports them."""
        sampling = SamplingParams() if sampling is None else sampling
        return stream_text(self, self.tokenizer, prompt, sampling, stop)

    @property
    @abstractmethod
    def requests(self) -> list[Request]: ...

    @abstractmethod
    def serve_unreported(
        self, prompt: Sequence[int], sampling: SamplingParams, requests: list[Request]
    ) -> None: ...

    @abstractmethod
    def step_quietly(self) -> None: ...


def _config_of(
    checkpoint: CheckpointFolder, dtype: torch.dtype | None, sizes: dict[str, object]
) -> EngineConfig:
    model = model_config_of(checkpoint, dtype)
    of_limits, of_engine = _sorted_sizes(sizes)
    return EngineConfig(model=model, limits=limits_for(checkpoint, **of_limits), **of_engine)


def _sorted_sizes(sizes: dict[str, object]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits `sizes` by name into fields of Limits and fields of EngineConfig. Raises TypeError for
    a name that neither has."""
    of_limits = {field.name for field in fields(Limits)}
    of_engine = {field.name for field in fields(EngineConfig)} - {"model", "limits"}
    for name in sizes:
        if name not in of_limits | of_engine:
            names = ", ".join(sorted(of_limits | of_engine))
            raise TypeError(f"from_pretrained has no {name!r}: choose from {names}")
    return (
        {name: size for name, size in sizes.items() if name in of_limits},
        {name: size for name, size in sizes.items() if name in of_engine},
    )
