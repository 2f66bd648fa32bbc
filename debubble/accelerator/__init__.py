"""Choosing the accelerator: a real GPU, or the one that this project simulates."""

from .addresses import ByAddress, MemoryRange
from .capture_error import CaptureError
from .choice import accelerator, current, flex_attention, launch
from .protocol import Accelerator, Event, Graph, Stream, Work

__all__ = [
    "Accelerator",
    "ByAddress",
    "CaptureError",
    "Event",
    "Graph",
    "MemoryRange",
    "Stream",
    "Work",
    "accelerator",
    "current",
    "flex_attention",
    "launch",
]
