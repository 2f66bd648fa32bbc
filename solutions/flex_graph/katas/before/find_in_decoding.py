"""The questions about the recording of `paged_decode`, without answers."""

from __future__ import annotations


def find_in_decoding() -> dict[str, str]:
    return {"line": "?", "kind": "?", "gain": "?"}
