"""Loads behind and beside compute (chapter 05, hard, 35 minutes).

Blocks are loaded while the device computes. But a block to be loaded may still have to be zeroed, a
block to be stored may still have to be computed, and a step that reads a block must find it loaded.
The class below gets all that right by letting the host wait: before each transfer for the
computation, and then for the copies. So nothing overlaps.

Let the streams wait for each other instead. A transfer runs after all work that the current stream
had when the transfer was requested, and after the transfer before it, but beside all later work. A
caller that needs blocks calls `make_stream_wait`: it lets the current stream wait for the transfers
of these blocks, and for no later transfers. The host waits for nothing.

You need to know streams and events, and which blocks of a KV cache a step reads and writes.

Edit this file, then run

    .venv/bin/pytest katas/offload/test_load_order.py

Stuck?         .venv/bin/debubble hint load_order
Start afresh?  .venv/bin/debubble reset load_order
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from debubble.accelerator import current
from katas.offload.given import copy_blocks


# Yours to edit, from here on.
class BlockTransfers:
    """Copies of blocks between `gpu` and `cpu` (pinned), each [blocks, words], in the background.

    A transfer runs after all work that the current stream has at the call, and after the previous
    transfer. The host waits for neither (vLLM #42212).
    """

    def __init__(self, gpu: torch.Tensor, cpu: torch.Tensor) -> None:
        self.gpu, self.cpu = gpu, cpu
        self.stream = current().stream()

    def load(self, cpu_ids: Sequence[int], gpu_ids: Sequence[int]) -> None:
        """Queues copies of the CPU blocks to the GPU blocks."""
        # These blocks may still have to be zeroed, or read by their last owner.
        current().current_stream().synchronize()
        with self.stream:
            copy_blocks(self.cpu, cpu_ids, self.gpu, gpu_ids)
        self.stream.synchronize()

    def store(self, gpu_ids: Sequence[int], cpu_ids: Sequence[int]) -> None:
        """Queues copies of the GPU blocks to the CPU blocks."""
        # These blocks may still have to be computed.
        current().current_stream().synchronize()
        with self.stream:
            copy_blocks(self.gpu, gpu_ids, self.cpu, cpu_ids)
        self.stream.synchronize()

    def make_stream_wait(self, gpu_ids: Sequence[int]) -> None:
        """Makes later work on the current stream wait until these GPU blocks can be used: it runs
        after the last transfer of each block, and need not wait for any later transfer."""
