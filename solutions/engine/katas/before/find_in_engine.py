"""The questions about the recording of `engine_decode`, without answers."""

from __future__ import annotations


def find_in_engine() -> dict[str, str]:
    return {"line": "?", "kind": "?", "gain": "?"}
