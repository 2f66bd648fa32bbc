"""Copy beside compute (chapter 00, medium, 20 minutes).

The function below works, and the host never waits. But everything is on one stream, and a stream
does one thing after the other: while a batch is copied nothing is computed, and the next copy waits
until the computation is done.

Give the copies a stream of their own, so that the next batch arrives while this one is computed.
`current().stream()` is a new stream: what is queued inside `with stream:` goes to it. A kernel must
still not start before its batch is there, and the host waits for nothing: a loop around
`event.query()` is a wait too. Memory goes back to the stream that it was asked for on, as soon as
its tensor is dropped: that stream must not use it again, for a later batch or in the next call,
before the kernel has read it.

You need to know streams and events: what is queued on a stream runs in order, and two streams know
nothing of each other.

Edit this file, then run

    pytest katas/first_steps/test_copy_beside_compute.py

Stuck?         debubble hint copy_beside_compute
Start afresh?  debubble reset copy_beside_compute
"""

from collections.abc import Callable

import torch

from debubble.accelerator import current


# Yours to edit, from here on.
def run_batches(
    batches: list[torch.Tensor], compute: Callable[[torch.Tensor], torch.Tensor]
) -> list[torch.Tensor]:
    """Returns `compute` of each batch, on the device. `batches` lie in pinned host memory."""
    device = current().device
    outputs = []
    for batch in batches:
        outputs.append(compute(batch.to(device, non_blocking=True)))
    return outputs
