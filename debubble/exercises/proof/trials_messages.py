"""The messages between the process that waits for trials and the process that runs them."""

from __future__ import annotations

from typing import NamedTuple

from ..running.under_test import Implementation
from .trials import Trial

REQUEST, ANSWER, NOTES = "request.pickle", "answer.pickle", "notes.txt"
"""Files in the folder of a process: two pickles, and the watchdog's notes."""


class TrialRequest(NamedTuple):
    implementations: list[Implementation]
    device: str
    longest_test: float
    """Seconds after which a test counts as hung."""


class Answer(NamedTuple):
    trials: list[Trial]
    refusal: str = ""
    """The reason why there are no trials, or ""."""
