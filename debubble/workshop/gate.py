"""A gate in a stream: what is queued behind it does not begin before the host opens it.

What a test says of the host, such as "it waits for nothing", then rests on no clock: however slow
the host is, and whoever else uses the GPU, the device has not begun with what comes later.

    with closed_gate(accelerator) as gate:
        call()
        assert gate.closed, "the host waited for what was queued before it"
"""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import TYPE_CHECKING

from debubble.contract.pytorch import need_pytorch

if TYPE_CHECKING:
    import torch

    from debubble.accelerator import Accelerator
else:
    torch = need_pytorch(__name__)

LONG_MS = 10_000.0
"""Only a host that waits for a gate sits this out, or one that takes as long for a single call."""
SLOTS, INTS_IN_A_SLOT = 4096, 4
"""So many gates are closed before one has a flag again. Of 16 bytes, so that Triton compiles one
kernel for all of them."""
_slots = count()


def closed_gate(
    accelerator: Accelerator, at_most_ms: float = LONG_MS, *, modelled_ms: float | None = None
) -> Gate:
    """A gate on the current stream. The block that it is the context of opens it at its end.

    It opens by itself after `at_most_ms`, by the device's own clock: who waits for it is late, and
    never hangs. On sim it is a sleep of `modelled_ms`, or else of `at_most_ms`: in modelled time no
    host is slow.
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
        """An event right behind it."""
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


@cache
def _flags() -> torch.Tensor:
    """[SLOTS, INTS_IN_A_SLOT] int32 in pinned host memory, which a kernel sees being written to."""
    return torch.zeros((SLOTS, INTS_IN_A_SLOT), dtype=torch.int32, pin_memory=True)
