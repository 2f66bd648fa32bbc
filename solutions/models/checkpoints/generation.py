"""Reads how a checkpoint samples by default: its generation_config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from solutions.engine.requests.request import SamplingParams

from .fields import Fields

FILE = "generation_config.json"
NUMBERS = ("temperature", "top_p", "min_p", "repetition_penalty")
"""Fields that have the same names and meanings in SamplingParams."""


def sampling_of(folder: Path) -> SamplingParams:
    """Returns the sampling parameters in the folder's generation_config.json: greedy unless its
    `do_sample` is true, or without the file. Fields that it leaves out choose among all tokens.
    Raises ValueError, naming the field, for values of another type."""
    if not (folder / FILE).exists():
        return SamplingParams()
    fields = Fields.of_file(folder / FILE)
    set_to_0 = {name for name in ("temperature", "min_p") if fields.values.get(name) == 0}
    given: dict[str, Any] = {
        name: fields.number(name) for name in NUMBERS if fields.has(name) and name not in set_to_0
    }
    if not fields.flag("do_sample", False) or "temperature" in set_to_0:
        return SamplingParams(repetition_penalty=given.get("repetition_penalty", 1.0))
    top_k = fields.count("top_k", 0, least=0)
    return SamplingParams(**{"temperature": 1.0} | given, top_k=top_k or None)
