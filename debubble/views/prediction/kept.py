"""Stores predictions in the workspace's progress, so that they outlive a kernel.

A reader's copies of the chapters lie in a folder `chapters` beside `progress.jsonl`, which is made
with them. A committed prediction is an event there, as `debubble progress --json` shows it. In any
other folder predictions are not stored.
"""

from __future__ import annotations

import os
from pathlib import Path

from debubble.progress import NAME, ProgressError, ProgressFile

FOLDER = "chapters"
KIND = "prediction"


def keep(question: str, words: str) -> None:
    """Stores the reader's committed answer to `question`, in words, in the workspace's
    `progress.jsonl`. Does nothing if the notebook is no reader's copy, or the file can't be
    written."""
    path = file()
    if path is None:
        return
    try:
        ProgressFile(path).add(
            [{"kind": KIND, "chapter": chapter(), "cell": question, "value": words}]
        )
    except (OSError, ProgressError):
        return  # A full disk is no reason to lose the answer on the page.


def recall(question: str) -> str | None:
    """Returns the answer to `question`, in words, that the reader committed last, or None."""
    path = file()
    try:
        events = ProgressFile(path).events() if path else []
    except ProgressError:
        return None
    said = [
        event["value"]
        for event in events
        if event["kind"] == KIND and event.get("cell") == question and "value" in event
    ]
    return said[-1] if said and isinstance(said[-1], str) else None


def file() -> Path | None:
    """Returns the workspace's `progress.jsonl` if the notebook is a reader's copy, else None."""
    folder = Path.cwd()
    path = folder.parent / NAME
    return path if folder.name == FOLDER and path.is_file() else None


def chapter() -> str | None:
    """Returns the number of the reader's chapter, such as "05", from the notebook's path that
    JupyterLab gives to a kernel; None without such a path."""
    name = Path(os.environ.get("JPY_SESSION_NAME", "")).name[:2]
    return name if name.isdecimal() else None
