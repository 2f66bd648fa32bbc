"""Memory between two guard bands of a known byte, for code that works on addresses: the bands show
a write outside the buffer."""

from __future__ import annotations

from typing import Literal

import torch

from debubble.accelerator import Accelerator

BAND = 4096
"""The bytes of the band on each side of a guarded buffer: a multiple of the alignment, so the
buffer is aligned like the allocation."""
UNTOUCHED = 0xA5
"""The value of each byte of an intact band."""


def guarded_buffer(
    accelerator: Accelerator, nbytes: int, place: Literal["device", "pinned"] = "device"
) -> GuardedBuffer:
    """Returns a buffer of `nbytes` zero bytes with a band of 4096 bytes on each side, in device
    memory or in pinned host memory.

    Raises ValueError for another place or a negative size, RuntimeError if no memory can be pinned.
    """
    if place not in ("device", "pinned"):
        raise ValueError(f"place {place!r} is unknown: choose 'device' or 'pinned'")
    if nbytes < 0:
        raise ValueError(f"a buffer has 0 bytes or more, not {nbytes}")
    size = nbytes + 2 * BAND
    if place == "pinned":
        memory = torch.full((size,), UNTOUCHED, dtype=torch.uint8, pin_memory=True)
    else:
        memory = torch.full((size,), UNTOUCHED, dtype=torch.uint8, device=accelerator.device)
    return GuardedBuffer(accelerator, memory)


class GuardedBuffer:
    def __init__(self, accelerator: Accelerator, memory: torch.Tensor) -> None:
        """Takes `memory`, uint8 [BAND + nbytes + BAND], all UNTOUCHED, and zeroes the part between
        the bands."""
        self.accelerator = accelerator
        self.memory = memory
        self.tensor = memory[BAND : len(memory) - BAND].zero_()
        """The buffer between the bands, uint8 [nbytes]."""
        accelerator.synchronize()

    @property
    def address(self) -> int:
        return self.memory.data_ptr() + BAND

    @property
    def nbytes(self) -> int:
        return len(self.tensor)

    def overrun(self) -> str:
        """Returns a description of the writes to the bands that completes "Your code …", or "" if
        there were none: "wrote up to 8 bytes before its start and up to 16 bytes after its end".
        Waits for the device."""
        self.accelerator.synchronize()
        memory = self.memory.cpu()
        front = (memory[:BAND] != UNTOUCHED).nonzero()
        back = (memory[len(memory) - BAND :] != UNTOUCHED).nonzero()
        parts = []
        if len(front):
            parts.append(f"up to {_bytes(BAND - int(front[0]))} before its start")
        if len(back):
            parts.append(f"up to {_bytes(int(back[-1]) + 1)} after its end")
        return f"wrote {' and '.join(parts)}" if parts else ""


def _bytes(number: int) -> str:
    return "1 byte" if number == 1 else f"{number} bytes"
