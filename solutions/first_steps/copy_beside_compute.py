"""Copies on a stream of their own; events keep kernels behind the data that they read."""

from collections.abc import Callable

import torch

from debubble.accelerator import current


def run_batches(
    batches: list[torch.Tensor], compute: Callable[[torch.Tensor], torch.Tensor]
) -> list[torch.Tensor]:
    """`compute` of each batch, on the device. `batches` lie in pinned host memory."""
    accelerator = current()
    computing, copying = accelerator.current_stream(), accelerator.stream()
    arrivals, outputs = [], []
    for batch in batches:
        with copying:
            arrivals.append(batch.to(accelerator.device, non_blocking=True))
        computing.wait_event(copying.record_event())
        outputs.append(compute(arrivals[-1]))
    # The arrivals' memory is the copying stream's to use again, once they are gone.
    copying.wait_stream(computing)
    return outputs
