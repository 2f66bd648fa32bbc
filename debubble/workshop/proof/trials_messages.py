"""What whoever waits for trials and the process that runs them say to each other."""

from __future__ import annotations

from typing import NamedTuple

from ..running.under_test import Implementation
from .trials import Trial

REQUEST, ANSWER, NOTES = "request.pickle", "answer.pickle", "notes.txt"
"""Files in the folder of a process: two pickles, and the watchdog's notes."""


class Request(NamedTuple):
    implementations: list[Implementation]
    device: str
    longest_test: float
    """In seconds."""


class Answer(NamedTuple):
    trials: list[Trial]
    refusal: str = ""
    """Why there are no trials."""
