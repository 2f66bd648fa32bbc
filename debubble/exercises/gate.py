"""A gate in a stream: work queued after it does not begin before the host opens it.

A test's claim about the host, such as "it waits for nothing", then needs no clock: however slow the
host is, and whatever else uses the GPU, the device has not begun the work after the gate.

    with closed_gate(accelerator) as gate:
        call()
        assert gate.closed, "the host waited for what was queued before it"
"""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import TYPE_CHECKING

from debubble.contract.packages.pytorch import need_pytorch

if TYPE_CHECKING:
    import torch

    from debubble.accelerator import Accelerator
else:
    torch = need_pytorch(__name__)

LONG_MS = 10_000.0
"""Milliseconds after which a gate opens by itself. Only a host that waits for the gate, or one that
takes as long for a single call, sees that."""
SLOTS, INTS_IN_A_SLOT = 4096, 4
"""The number of gates after which a flag is used again, and the int32 values of a flag. A flag has
16 bytes, so that Triton compiles one kernel for all of them."""
_slots = count()


def closed_gate(
    accelerator: Accelerator, at_most_ms: float = LONG_MS, *, modelled_ms: float | None = None
) -> Gate:
    """Returns a closed gate on the current stream, a context manager that opens it at the end of
    the block.

    The gate opens by itself after `at_most_ms` of the device's own clock, so a host that waits for
    it is late but never hangs. On sim the gate is a sleep of `modelled_ms`, or of `at_most_ms`
    without it: in modelled time no host is slow.
    """
    return Gate(accelerator, at_most_ms, at_most_ms if modelled_ms is None else modelled_ms)


class Gate:
    def __init__(self, accelerator: Accelerator, at_most_ms: float, modelled_ms: float) -> None:
        self._flag: torch.Tensor | None = None
        if accelerator.modelled:
            accelerator.sleep(modelled_ms)
        else:
            from ..cuda.gate import gate as kernel

            self._flag = _flags()[next(_slots) % SLOTS]
            self._set_flag(0)
            accelerator.launch(kernel, (1,), self._flag, int(at_most_ms), num_warps=1)
        self.passed = accelerator.event()
        """An event recorded right after the gate."""
        self.passed.record()

    @property
    def closed(self) -> bool:
        """True while the device has not passed the gate."""
        return not self.passed.query()

    def open(self) -> None:
        """Opens the gate, so that the device goes on, and returns at once. On sim there is nothing
        to open."""
        self._set_flag(1)

    def _set_flag(self, value: int) -> None:
        if self._flag is not None:
            self._flag.numpy()[0] = value

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *exception: object) -> None:
        self.open()


@cache
def _flags() -> torch.Tensor:
    """Returns the flags of all gates, int32 [SLOTS, INTS_IN_A_SLOT], in pinned host memory, so that
    a running kernel sees the host's writes."""
    return torch.zeros((SLOTS, INTS_IN_A_SLOT), dtype=torch.int32, pin_memory=True)
