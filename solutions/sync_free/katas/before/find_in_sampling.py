"""The questions about the recording of `sampling`, without answers."""

from __future__ import annotations


def find_in_sampling() -> dict[str, str]:
    return {"line": "?", "kind": "?", "gain": "?"}
