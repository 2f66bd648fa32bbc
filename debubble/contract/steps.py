"""Named steps: blocks of the host's work to which a recording gives a name, such as one step of an
engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Note = Callable[[str, float, float], None]
"""A function that takes a step's name, its start and its end, in microseconds of the recording."""


@dataclass
class StepName:
    """The name of a running step. A step that is not recorded needs no name."""

    name: str
    is_recorded: bool


@contextmanager
def named_step(name: str = "") -> Iterator[StepName]:
    """Marks the block as a step in the running recording, if there is one. The block may set the
    name later; a step without a name is left out."""
    if not _recorders:
        yield StepName(name, is_recorded=False)
        return
    note, clock = _recorders[-1]
    step, start = StepName(name, is_recorded=True), clock()
    try:
        yield step
    finally:
        if step.name:
            note(step.name, start, clock())


@contextmanager
def noting_steps(note: Note, clock: Callable[[], float]) -> Iterator[None]:
    """Calls `note` for each named step that ends in the block. `clock` returns microseconds since
    the recording began."""
    _recorders.append((note, clock))
    try:
        yield
    finally:
        _recorders.pop()


LOAD = "load"
"""The name of the step that only keeps the device busy until the host has queued the others. Views
may cut it short."""

_recorders: list[tuple[Note, Callable[[], float]]] = []
"""The function that notes steps, and its clock, while a recording runs."""
