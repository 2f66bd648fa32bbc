"""The handler as it was: every transfer is one DMA batch, with each block of each tensor in it.

Right, and as fast as the link where blocks are large. Where they are small, the host takes longer
to hand the pieces to the driver than the link takes to move them.
"""

from __future__ import annotations

from collections.abc import Sequence

from debubble.accelerator import Stream

from .handler import SingleDirectionOffloadingHandler
from .memory.kv_tensors import KVGroup
from .selection import DmaSwap


def offloading_handler(
    groups: Sequence[KVGroup], *, gpu_to_cpu: bool, compute_stream: Stream | None = None
) -> SingleDirectionOffloadingHandler:
    """All else is as it is now: the order of transfers, their results, their errors."""
    return SingleDirectionOffloadingHandler(
        groups,
        gpu_to_cpu=gpu_to_cpu,
        swap=DmaSwap(any_order=not gpu_to_cpu),
        compute_stream=compute_stream,
        merge=False,
    )


def loading_handler(groups: Sequence[KVGroup]) -> SingleDirectionOffloadingHandler:
    """For CPU to GPU."""
    return offloading_handler(groups, gpu_to_cpu=False)
