"""Makes an engine with the weights of a checkpoint."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from debubble.accelerator import current
from solutions.engine.engine import Engine
from solutions.engine.model.config import EngineConfig
from solutions.engine.optimizations import Optimizations
from solutions.flex_graph import Limits
from solutions.sync_free import DataParallelGroup

from .checkpoints.folder import CheckpointFolder
from .checkpoints.load import Progress, limits_for, load_model, model_config_of, read_folder


def from_pretrained(
    folder: str | Path,
    optimizations: Optimizations | None = None,
    *,
    dtype: torch.dtype | None = None,
    group: DataParallelGroup | None = None,
    progress: Progress = lambda done, total: None,
    **sizes: object,
) -> Engine:
    """Makes an engine with the weights of a checkpoint, as Hugging Face's `save_pretrained` writes
    it: of Llama 3, Mistral, Qwen2, Qwen3, Qwen3-Next or Gemma 3.

    `dtype`: by default that of the config. `sizes`: fields of Limits, such as max_num_seqs or
    max_model_len, and of EngineConfig, such as num_cpu_blocks. `progress` is called with the number
    of bytes on the device, and of all bytes. Raises ValueError or TypeError, with nothing left on
    the device, which names the file, the tensor or the field that is broken, missing, or not
    served.
    """
    checkpoint = read_folder(folder)
    config = _config_of(checkpoint, dtype, sizes)
    model = load_model(checkpoint, config, current().device, progress)
    return Engine(config, optimizations, model=model, group=group)


def config_of(
    folder: str | Path, dtype: torch.dtype | None = None, **sizes: object
) -> EngineConfig:
    """Returns the config that `from_pretrained` would make its engine with, and loads no tensor.
    Raises the same errors, but for those of tensors."""
    return _config_of(read_folder(folder), dtype, sizes)


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
