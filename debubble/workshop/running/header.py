"""What a run of the katas says of itself first: on which accelerator, and whose code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import debubble
from debubble.accelerator.choice import resolve

from .time_limit import is_available

if TYPE_CHECKING:
    from debubble.accelerator import Accelerator


def header(config: pytest.Config) -> list[str]:
    return [_device_line(config), _code_line(config)]


def chosen_accelerator(config: pytest.Config) -> Accelerator:
    return debubble.accelerator(config.getoption("device", None) or "auto")


def chosen_device(config: pytest.Config) -> str:
    """Its name, without a start of CUDA."""
    return resolve(config.getoption("device", None) or "auto")


def _device_line(config: pytest.Config) -> str:
    try:
        accelerator = chosen_accelerator(config)
    except Exception as error:
        raise pytest.UsageError(str(error)) from error
    modelled = "counts are a GPU's, times are modelled"
    times = modelled if accelerator.modelled else "times are measured"
    return f"accelerator: {accelerator.description}; {times}"


def _code_line(config: pytest.Config) -> str:
    chosen = config.getoption("impl", "learner")
    whose = {
        "learner": "code under test: yours (--impl solutions tests ours)",
        "solutions": "code under test: our solutions, not yours",
    }.get(chosen, f"code under test: {chosen}, not yours")
    return whose if is_available() else f"{whose}; endless loops are not stopped here"
