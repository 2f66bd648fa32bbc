"""The version after the change: a kernel copies small KV blocks, and the host launches it once.

Blocks that lie side by side become one piece. The path was measured on this GPU: a kernel, or the
copy engine for few and large pieces. A kernel reads the descriptors in place, in pinned memory,
when it runs. So they come from a pool, and stay unchanged until the copy is done.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from .memory.blocks import GroupBlocks, Pieces, num_descriptors, pieces_of_all
from .memory.kv_tensors import KVGroup, copied_sizes
from .selection import _select_swap_blocks_fn
from .transfers import Swap, Transfer, TransferQueue


class SingleDirectionOffloadingHandler(TransferQueue):
    """A queue that loads or stores KV blocks; `TransferQueue` has the arguments and errors (vLLM
    #42212)."""

    def _select_swap(self) -> Swap:
        """Returns the function that copies lists of pieces fastest: by a kernel, which is compiled
        here, or by the copy engine."""
        swap = _select_swap_blocks_fn(copied_sizes(self.groups), gpu_to_cpu=self.gpu_to_cpu)
        swap.warm_up()
        return swap

    def _plan(self, blocks: Sequence[GroupBlocks]) -> list[Pieces]:
        """Returns the pieces to copy. With `merge`, adjacent blocks of a tensor become one piece,
        as in `pieces_of`."""
        return pieces_of_all(self.groups, blocks, merge=self.merge)

    def _submit(self, job_id: Hashable, pieces: Sequence[Pieces]) -> Transfer:
        """Queues the copies of `pieces`, with their descriptors in a buffer of the pool: a kernel
        reads the buffer while it copies."""
        buffers = self.pool.take(num_descriptors(pieces))
        end_event = self._event()
        try:
            return self._queue(job_id, pieces, buffers, end_event)
        finally:
            self.pool.give_back(buffers, end_event)


def loading_handler(groups: Sequence[KVGroup]) -> TransferQueue:
    """Returns a handler that loads blocks of `groups` from CPU to GPU memory, as a serving loop
    needs."""
    return SingleDirectionOffloadingHandler(groups, gpu_to_cpu=False)
