"""Choosing the accelerator: a real GPU, or the one that this project simulates."""

from .choice import accelerator, current, launch
from .protocol import Accelerator, Event, Graph, Stream, Work

__all__ = ["Accelerator", "Event", "Graph", "Stream", "Work", "accelerator", "current", "launch"]
