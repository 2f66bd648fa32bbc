"""A download that the host waits for only where it reads it, and not where it asks for it."""

from __future__ import annotations

import torch

from debubble.accelerator import current


class ReadBack:
    """A device tensor on its way to the host, on the stream on which this was made."""

    def __init__(self, tensor: torch.Tensor) -> None:
        # Fresh memory each time, so that no later download can overwrite what was not read yet.
        self.values = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=current().pin_memory)
        self.values.copy_(tensor, non_blocking=True)
        self.arrived = current().event()
        self.arrived.record()

    def read(self) -> torch.Tensor:
        """The tensor on the host, the caller's to keep. Waits only if it is not there yet."""
        if not self.arrived.query():
            self.arrived.synchronize()
        return self.values
