"""Recordings: events, the bubbles between them, comparisons of two, and files of them."""

from ..contract.source_line import SourceLine
from .bubbles import CAUSES, Bubble, Cause
from .comparison import Comparison
from .event import COPY_KINDS, HOST_LANE, CopyKind, Event, EventKind, Hazard
from .timeline import Timeline
from .trace_format import TraceFileError

__all__ = [
    "CAUSES",
    "COPY_KINDS",
    "HOST_LANE",
    "Bubble",
    "Cause",
    "Comparison",
    "CopyKind",
    "Event",
    "EventKind",
    "Hazard",
    "SourceLine",
    "Timeline",
    "TraceFileError",
]
