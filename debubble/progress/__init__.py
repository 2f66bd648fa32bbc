"""Reads and writes `progress.jsonl`, which holds what a learner tried, saw and solved."""

from .events import VERSION, ProgressEvent, Standing, parsed
from .file import NAME, ProgressError, ProgressFile

__all__ = [
    "NAME",
    "VERSION",
    "ProgressError",
    "ProgressEvent",
    "ProgressFile",
    "Standing",
    "parsed",
]
