"""What an engine can do that serves a checkpoint: take text and images, and say text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch

from debubble.accelerator import current
from solutions.flex_graph import Limits
from solutions.sync_free import DataParallelGroup

from ..checkpoints.folder import CheckpointFolder
from ..checkpoints.images import ImagePrompt, ImageTower
from ..checkpoints.load import Progress, limits_for, load_model, model_config_of, read_folder
from ..model.config import EngineConfig
from ..model.model import Model
from ..optimizations import Optimizations
from ..requests.request import Request, SamplingParams
from ..requests.turns import TakesTurns, in_turn
from .stream import stream_text
from .tokenizer import Messages, Tokenizer


class CheckpointEngine(TakesTurns, ABC):
    """Stands on what an engine does with ids."""

    config: EngineConfig
    model: Model
    folder: Path | None = None
    """Of the checkpoint that it serves, if it serves one."""
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
        """An engine with the weights of a checkpoint, as Hugging Face's `save_pretrained` writes
        it: of Llama 3, Qwen3, Qwen3-Next or Gemma 3.

        `dtype`: by default that of the config. `sizes`: of Limits, as max_num_seqs or
        max_model_len, and of EngineConfig, as num_cpu_blocks. `progress` is told how many bytes of
        how many are on the device. ValueError or TypeError, with nothing left on the device, which
        names the file, the tensor or the field that is broken, missing, or not served.
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
        """Of the checkpoint. ValueError for an engine with random weights, and for a checkpoint
        without one; ImportError without transformers."""
        if self.folder is None:
            raise ValueError("this engine has random weights and no tokenizer: give it ids")
        return Tokenizer(self.folder)

    @cached_property
    def images(self) -> ImageTower:
        """What makes tokens of images. ValueError for an engine with random weights and for a
        model of text; ImportError without transformers."""
        if self.folder is None:
            raise ValueError("this engine has random weights and no vision tower")
        return ImageTower(read_folder(self.folder), self.model)

    @in_turn
    def image_prompt(self, input_ids: Sequence[int], pixel_values: torch.Tensor) -> ImagePrompt:
        """A prompt with images, for `add_request`, of what the processor of transformers gives:
        ids [tokens], and pixels [images, 3, size, size] on the host. Ask for it before another
        prompt with images is made: until then its images stay on the device."""
        in_use = {token for request in self.requests for token in request.prompt}
        return self.images.prompt(input_ids, pixel_values, in_use)

    def stream(
        self,
        prompt: str | Messages,
        sampling: SamplingParams | None = None,
        *,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """The answer to a text, or to messages by the checkpoint's chat template, as text, part by
        part as it comes. It ends before the first of the `stop` strings; whoever stops to read
        cancels the request. Other requests share its steps, and the next `step` reports them."""
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
    """Those of Limits, and those of EngineConfig. TypeError for a name that neither has."""
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
