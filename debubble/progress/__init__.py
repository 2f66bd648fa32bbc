"""Reads and writes `progress.jsonl`, which holds what a learner tried, saw and solved."""

from .events import VERSION, Event, Standing, parsed
from .file import NAME, ProgressError, ProgressFile

__all__ = ["NAME", "VERSION", "Event", "ProgressError", "ProgressFile", "Standing", "parsed"]
