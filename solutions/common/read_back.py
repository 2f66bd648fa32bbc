"""A download in two parts: the copy is queued first, and the host waits only when it reads."""

from __future__ import annotations

import torch

from debubble.accelerator import current


class ReadBack:
    """A download of a device tensor, queued on the stream that is current at its creation."""

    def __init__(self, tensor: torch.Tensor) -> None:
        # Fresh memory each time, so that no later download can overwrite what was not read yet.
        self.values = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=current().pin_memory)
        self.values.copy_(tensor, non_blocking=True)
        self.arrived = current().event()
        self.arrived.record()

    def read(self) -> torch.Tensor:
        """Returns the tensor on the host, which the caller may keep. Waits only if it has not
        arrived yet."""
        if not self.arrived.query():
            self.arrived.synchronize()
        return self.values
