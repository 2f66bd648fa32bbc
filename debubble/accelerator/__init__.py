"""Choosing the accelerator: a real GPU, or the one that this project simulates."""

from .capture_error import CaptureError
from .choice import accelerator, current, flex_attention, launch
from .protocol import Accelerator, Event, Graph, Stream, Work

__all__ = [
    "Accelerator",
    "CaptureError",
    "Event",
    "Graph",
    "Stream",
    "Work",
    "accelerator",
    "current",
    "flex_attention",
    "launch",
]
