"""Ordinary programs, 5 to 30 lines of PyTorch each, for which sim counts what a GPU would do.

A program gets the accelerator and its device, prepares its inputs, and returns the function that is
recorded.
"""

import inspect
from collections.abc import Callable

from . import caches, copies, decoding, host_reads, indexing, layers, training

MODULES = {
    "caches": caches,
    "copies": copies,
    "decoding": decoding,
    "host_reads": host_reads,
    "indexing": indexing,
    "layers": layers,
    "training": training,
}

PROGRAMS: dict[str, dict[str, Callable]] = {
    subject: {
        name: program
        for name, program in inspect.getmembers(module, inspect.isfunction)
        if program.__module__ == module.__name__
    }
    for subject, module in MODULES.items()
}
"""The programs by subject and name: {subject: {name: program}}."""
