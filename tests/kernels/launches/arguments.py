"""Helpers that describe launches and their arguments."""

from __future__ import annotations

from typing import Any


def pointers(kind: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), f"*{kind}")


def launch(
    arguments: dict[str, str],
    aligned: list[str],
    num_warps: int = 4,
    num_stages: int | None = None,
    **constants: Any,
) -> dict[str, Any]:
    """Describes a launch with these constants."""
    stages = {} if num_stages is None else {"num_stages": num_stages}
    options = {"num_warps": num_warps, **stages}
    return {
        "arguments": arguments,
        "aligned": aligned,
        "constants": constants,
        "options": options,
    }
