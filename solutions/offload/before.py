"""KV blocks between GPU and CPU memory, as it was: by the copy engine, however small they are.

Each block of each tensor is a piece, described in lists that are made for this one transfer, and
the driver is handed all of them. That is as fast as the link where blocks are large. Where they are
small, the host takes longer to describe them to the driver than the link takes to move them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from .memory.blocks import GroupBlocks, Pieces, num_descriptors, pieces_of_all
from .memory.kv_tensors import KVGroup
from .selection import DmaSwap
from .transfers import Swap, Transfer, TransferQueue


class SingleDirectionOffloadingHandler(TransferQueue):
    """Loads or stores KV blocks; `TransferQueue` says what it takes and raises (vLLM #42212)."""

    def _select_swap(self) -> Swap:
        """The copy engine."""
        return DmaSwap(any_order=not self.gpu_to_cpu)

    def _plan(self, blocks: Sequence[GroupBlocks]) -> list[Pieces]:
        """A piece for each block of each tensor."""
        return pieces_of_all(self.groups, blocks, merge=False)

    def _submit(self, job_id: Hashable, pieces: Sequence[Pieces]) -> Transfer:
        """In new lists: the driver has read them when it returns."""
        buffers = torch.empty((3, num_descriptors(pieces)), dtype=torch.int64)
        return self._queue(job_id, pieces, buffers, self._event())


def loading_handler(groups: Sequence[KVGroup]) -> TransferQueue:
    """For CPU to GPU, as serving loops ask for one."""
    return SingleDirectionOffloadingHandler(groups, gpu_to_cpu=False)
