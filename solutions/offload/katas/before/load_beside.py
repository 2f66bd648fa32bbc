"""Memory across streams as it begins: the copies wait for all kernels, which is safe and slow."""

from __future__ import annotations

import torch

from debubble.accelerator import Stream, current


def load_beside(blocks: torch.Tensor, copying: Stream) -> torch.Tensor:
    """Returns `blocks` on the device, copied on the stream `copying`."""
    computing = current().current_stream()
    # The new memory may be that of an earlier load, which a kernel may still read.
    copying.wait_stream(computing)
    with copying:
        loaded = blocks.to(current().device, non_blocking=True)
    computing.wait_event(copying.record_event())
    return loaded
