"""The stored text of the chapters' outputs, with which nbval compares a run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from .paths import ROOT

PLACE = re.compile(r"\b\w+\.py:\d+")
"""A pattern for a file and line, such as `a.py:7`. The hash ignores them, since they change when
code moves."""


def outputs() -> dict[str, dict[str, str]]:
    """Returns {chapter: {cell id: hash of its output text}} for the cells that show text."""
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
    """Returns a hash of the text that ignores line breaks, and files and lines in it, since they
    change when code moves."""
    words = " ".join(PLACE.sub("a place", text).split())
    return f"text {hashlib.sha256(words.encode()).hexdigest()[:16]}"
