"""What a process that runs trials is asked, and answers: pickles in a folder of its own."""

from __future__ import annotations

from typing import NamedTuple

from ..running.under_test import Implementation
from .trials import Trial

REQUEST, ANSWER, NOTES = "request.pickle", "answer.pickle", "notes.txt"
"""The files; the notes are the watchdog's."""


class Request(NamedTuple):
    implementations: list[Implementation]
    device: str
    longest_test: float
    """In seconds."""


class Answer(NamedTuple):
    trials: list[Trial]
    refusal: str = ""
    """Why there are no trials."""
