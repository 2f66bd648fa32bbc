"""The questions about the recording of `convolutions`, without answers."""

from __future__ import annotations


def find_in_convolutions() -> dict[str, str]:
    return {"line": "?", "kind": "?", "gain": "?"}
