"""The text that the chapters store of what their cells show; nbval holds a run to it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from .paths import ROOT

PLACE = re.compile(r"\b\w+\.py:\d+")
"""A file and its line, which change when code moves."""


def outputs() -> dict[str, dict[str, str]]:
    """By chapter and cell: a hash of its text, for cells that show any."""
    return {
        path.stem: {
            cell["id"]: digest(text)
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
            if (text := "\n".join(texts(cell)))
        }
        for path in sorted((ROOT / "tests/chapters").glob("*.ipynb"))
    }


def texts(cell: dict[str, Any]) -> Iterator[str]:
    for output in cell.get("outputs", ()):
        yield "".join(output.get("text", ""))
        yield "".join(output.get("data", {}).get("text/plain", ""))


def digest(text: str) -> str:
    """Where a sentence was broken into lines depends on the places in it, and says nothing."""
    words = " ".join(PLACE.sub("a place", text).split())
    return f"text {hashlib.sha256(words.encode()).hexdigest()[:16]}"
