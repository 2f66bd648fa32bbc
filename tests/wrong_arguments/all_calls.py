"""The valid calls of all five systems."""

from __future__ import annotations

from typing import Any

from . import calls_of_gdn, calls_of_offload, calls_of_steps
from .search import Call

MODULES = (calls_of_steps, calls_of_gdn, calls_of_offload)


def all_calls(accelerator: Any) -> dict[str, Call]:
    """Returns {name: valid call} for the public functions of all five systems."""
    return {call.name: call for module in MODULES for call in module.calls(accelerator)}
