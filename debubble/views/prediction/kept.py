"""Predictions outlive a kernel where the notebook is a reader's copy: in the workspace's progress.

A reader's copies lie in a folder `chapters` beside `progress.jsonl`, which is made with them. What
was committed to is a line there, as `debubble progress --json` shows it. Anywhere else nothing is
kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

FOLDER, FILE = "chapters", "progress.jsonl"
KIND = "prediction"


def keep(question: str, words: str) -> None:
    path = file()
    if path is None:
        return
    time = datetime.now(UTC).isoformat(timespec="seconds")
    event = {
        "kind": KIND, "time": time, "chapter": chapter(), "cell": question, "value": words
    }  # fmt: skip
    try:
        with path.open("a", encoding="utf-8") as progress:
            progress.write(json.dumps(event, ensure_ascii=False) + "\n")
    except OSError:
        return  # A full disk is no reason to lose the answer on the page.


def recall(question: str) -> str | None:
    """What was said last, or None."""
    said = [event["value"] for event in _events() if event.get("cell") == question]
    return said[-1] if said and isinstance(said[-1], str) else None


def file() -> Path | None:
    folder = Path.cwd()
    path = folder.parent / FILE
    return path if folder.name == FOLDER and path.is_file() else None


def chapter() -> str | None:
    """Its number, as JupyterLab tells a kernel the notebook that it runs."""
    name = Path(os.environ.get("JPY_SESSION_NAME", "")).name[:2]
    return name if name.isdecimal() else None


def _events() -> Iterator[dict]:
    path = file()
    if path is None:
        return
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        if KIND not in line:
            continue
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("kind") == KIND and "value" in event:
            yield event
