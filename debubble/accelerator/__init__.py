"""Chooses the accelerator: a real GPU, or the one that this project simulates."""

from ..contract.addresses import ByAddress, MemoryRange
from ..contract.capture_error import CaptureError
from ..contract.protocol import Accelerator, Event, Graph, Stream, Work
from .as_cuda import as_cuda
from .choice import accelerator, current, flex_attention, launch

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
    "as_cuda",
    "current",
    "flex_attention",
    "launch",
]

# `debubble.accelerator` is the function and hides this package, so the function gets the package's
# names too.
for _name in __all__:
    setattr(accelerator, _name, globals()[_name])
