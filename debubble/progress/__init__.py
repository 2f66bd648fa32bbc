"""What a learner tried, saw and solved: the only code that reads and writes `progress.jsonl`."""

from .events import VERSION, Event, Standing, parsed
from .file import NAME, ProgressError, ProgressFile

__all__ = ["NAME", "VERSION", "Event", "ProgressError", "ProgressFile", "Standing", "parsed"]
