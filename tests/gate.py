"""The gate of the katas, for claims about our own code, and a second kind of gate.

SHORT_MS is for the claim "the host does wait here": `call(); assert not gate.closed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest import mock

import torch

from debubble.exercises.gate import LONG_MS, Gate, closed_gate

__all__ = ["LONG_MS", "SHORT_MS", "Gate", "closed_gate", "gate_that_waits_open"]

SHORT_MS = 100.0
"""The duration in milliseconds of a gate that no test opens, because the host should wait for
it."""


@contextmanager
def gate_that_waits_open(accelerator) -> Iterator[Gate]:
    """Yields a closed gate on the current stream. It opens when the host begins to wait for an
    event or a stream, so every call that waits finds pending work, but its wait takes no time."""
    with ExitStack() as patches, closed_gate(accelerator) as gate:
        if not accelerator.modelled:
            for waited_for in (torch.cuda.Event, torch.cuda.Stream):
                wait = _opening(gate, waited_for.synchronize)
                patches.enter_context(mock.patch.object(waited_for, "synchronize", wait))
        yield gate


def _opening(gate: Gate, wait: Callable[[Any], None]) -> Callable[[Any], None]:
    @wraps(wait)
    def open_and_wait(waited_for: Any) -> None:
        gate.open()
        wait(waited_for)

    return open_and_wait
