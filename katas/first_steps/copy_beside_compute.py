"""Copy beside compute (chapter 00, medium, 20 minutes).

The function below works, and the host never waits. But all its work is on one stream, and a stream
does one thing after the other. While a batch is copied nothing is computed, and the next copy waits
for the computation.

Give the copies a stream of their own, so that the next batch arrives while this one is computed.
`current().stream()` is a new stream, `current().current_stream()` the one that the function was
called on, and work queued inside `with stream:` goes to `stream`. A kernel must still not start
before its batch has arrived: `event = stream.record_event()` marks a place in a stream's work, and
`other.wait_event(event)` makes another stream wait until the device has passed it. The host waits
for nothing: a loop around `event.query()` is a wait too. The batches may have different shapes, and
there may be none.

A tensor's memory returns to the stream that allocated it as soon as the tensor is dropped. That
stream must not use the memory again before the kernel has read it, neither for a later batch nor in
the next call. `other.wait_stream(stream)` makes a stream wait for all that is queued on another,
and `tensor.record_stream(stream)` tells PyTorch that another stream uses a tensor.

You need to know that work on one stream runs in order, and that two streams don't wait for each
other by themselves.

Edit this file, then run

    .venv/bin/pytest katas/first_steps/test_copy_beside_compute.py

Stuck?         .venv/bin/debubble hint copy_beside_compute
Start afresh?  .venv/bin/debubble reset copy_beside_compute
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
