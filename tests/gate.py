"""A gate in a stream: what is queued behind it does not begin before the host opens it.

What a test says of the host, such as "it waits for nothing", then rests on no clock: however slow
the host is, and whoever else uses the GPU, the device has not begun with what comes later.

    with closed_gate(accelerator) as gate:
        call()
        assert gate.closed, "the host waited for what was queued before it"

For "the host does wait here" there is SHORT_MS: `call(); assert not gate.closed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from itertools import count
from typing import Any
from unittest import mock

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer

LONG_MS = 10_000.0
"""Only a host that waits for a gate sits this out, or one that takes as long for a single call."""
SHORT_MS = 100.0
"""For a gate that the host is meant to wait for, and that nobody opens."""

SLOTS, INTS_IN_A_SLOT = 4096, 4
"""So many gates are closed before one has a flag again. Of 16 bytes, so that Triton compiles one
kernel for all of them."""
_slots = count()


def closed_gate(accelerator, at_most_ms: float = LONG_MS) -> Gate:
    """A gate on the current stream. The block that it is the context of opens it at its end.

    It opens by itself after `at_most_ms`, by the device's own clock: who waits for it is late, and
    never hangs.
    """
    return Gate(accelerator, at_most_ms)


class Gate:
    """On sim it is a sleep of `at_most_ms`: in modelled time no host is slow."""

    def __init__(self, accelerator, at_most_ms: float) -> None:
        self._flag: torch.Tensor | None = None
        if accelerator.modelled:
            accelerator.sleep(at_most_ms)
        else:
            self._flag = _flags()[next(_slots) % SLOTS]
            self._set_flag(0)
            accelerator.launch(gate_kernel, (1,), self._flag, int(at_most_ms), num_warps=1)
        self.passed = accelerator.event()
        self.passed.record()

    @property
    def closed(self) -> bool:
        """Whether the device has not come past it."""
        return not self.passed.query()

    def open(self) -> None:
        """Lets the device go on, and returns at once."""
        self._set_flag(1)

    def _set_flag(self, value: int) -> None:
        if self._flag is not None:
            self._flag.numpy()[0] = value

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *exception: object) -> None:
        self.open()


@contextmanager
def gate_that_waits_open(accelerator) -> Iterator[Gate]:
    """A closed gate on the current stream, which opens when the host begins to wait for an event
    or a stream: so there always is something to wait for, and a wait takes no time."""
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


@cache
def _flags() -> torch.Tensor:
    """[SLOTS, INTS_IN_A_SLOT] int32 in pinned host memory, which a kernel sees being written to."""
    return torch.zeros((SLOTS, INTS_IN_A_SLOT), dtype=torch.int32, pin_memory=True)


@triton.jit(do_not_specialize=["at_most_ms"])
def gate_kernel(flag, at_most_ms):
    """Spins until the host has written to `flag`, or for `at_most_ms`."""
    start = globaltimer()
    now = start
    is_open = tl.load(flag, volatile=True)
    while (is_open == 0) & ((now - start) // 1_000_000 < at_most_ms):
        is_open = tl.load(flag, volatile=True)
        now = globaltimer()
