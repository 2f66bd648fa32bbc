"""The questions about the recording of `prefixes`, without answers."""

from __future__ import annotations


def find_in_prefixes() -> dict[str, str]:
    return {"line": "?", "kind": "?", "gain": "?"}
