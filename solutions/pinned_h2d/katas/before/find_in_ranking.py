"""The questions about the recording of `ranking`, without answers."""

from __future__ import annotations


def find_in_ranking() -> dict[str, str]:
    return {"line": "?", "kind": "?", "gain": "?"}
