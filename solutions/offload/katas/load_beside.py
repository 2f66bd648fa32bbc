"""Memory across streams: a load on a stream of its own, whose memory another stream uses."""

from __future__ import annotations

import torch

from debubble.accelerator import Stream, current


def load_beside(blocks: torch.Tensor, copying: Stream) -> torch.Tensor:
    """Returns `blocks` on the device, copied on the stream `copying`, beside the kernels that are
    queued on the current stream.

    `blocks` lie in pinned host memory, and stay as they are until the copy is done. The caller may
    use the result on the current stream at once, and drop it at any time.
    """
    with copying:
        loaded = blocks.to(current().device, non_blocking=True)
    computing = current().current_stream()
    computing.wait_event(copying.record_event())
    # The memory is from `copying`. Once the caller drops it, the next load may get it, but not
    # before the kernels that are queued on this stream by then are done.
    loaded.record_stream(computing)  # type: ignore[arg-type]  # or a stream of sim's
    return loaded
