"""The version before the change: the copy engine moves KV blocks of any size between GPU and CPU
memory.

Each block of each tensor is a piece. The pieces are described in lists that are made for this one
transfer, and the driver gets all of them. That is as fast as the link if blocks are large. If they
are small, the host takes longer to describe them to the driver than the link takes to move them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from .memory.blocks import GroupBlocks, Pieces, num_descriptors, pieces_of_all
from .memory.kv_tensors import KVGroup
from .selection import DmaSwap
from .transfers import Swap, Transfer, TransferQueue


class SingleDirectionOffloadingHandler(TransferQueue):
    """A queue that loads or stores KV blocks; `TransferQueue` has the arguments and errors (vLLM
    #42212)."""

    def _select_swap(self) -> Swap:
        """Returns the function that copies every list of pieces with the copy engine."""
        return DmaSwap(any_order=not self.gpu_to_cpu)

    def _plan(self, blocks: Sequence[GroupBlocks]) -> list[Pieces]:
        """Returns the pieces to copy: each block of each tensor is a piece of its own."""
        return pieces_of_all(self.groups, blocks, merge=False)

    def _submit(self, job_id: Hashable, pieces: Sequence[Pieces]) -> Transfer:
        """Queues the copies of `pieces`, with their descriptors in newly allocated lists: the
        driver has read these when its call returns."""
        buffers = torch.empty((3, num_descriptors(pieces)), dtype=torch.int64)
        return self._queue(job_id, pieces, buffers, self._event())


def loading_handler(groups: Sequence[KVGroup]) -> TransferQueue:
    """Returns a handler that loads blocks of `groups` from CPU to GPU memory, as a serving loop
    needs."""
    return SingleDirectionOffloadingHandler(groups, gpu_to_cpu=False)
