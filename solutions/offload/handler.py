"""KV blocks between GPU and CPU memory: small ones by a kernel, and the host launches it once.

Blocks that lie side by side become one piece. Who copies the pieces was measured on this GPU: a
kernel, or for few and large ones the copy engine. A kernel reads the descriptors where they are, in
pinned memory, when its turn comes: so they come from a pool, and stay until the copy is done.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from .memory.blocks import GroupBlocks, Pieces, num_descriptors, pieces_of_all
from .memory.kv_tensors import KVGroup, copied_sizes
from .selection import _select_swap_blocks_fn
from .transfers import Swap, Transfer, TransferQueue


class SingleDirectionOffloadingHandler(TransferQueue):
    """Loads or stores KV blocks; `TransferQueue` says what it takes and raises (vLLM #42212)."""

    def _select_swap(self) -> Swap:
        """Whoever is the fastest: a kernel, which is compiled here, or the copy engine."""
        swap = _select_swap_blocks_fn(copied_sizes(self.groups), gpu_to_cpu=self.gpu_to_cpu)
        swap.warm_up()
        return swap

    def _plan(self, blocks: Sequence[GroupBlocks]) -> list[Pieces]:
        """A piece for blocks of a tensor that lie side by side on both sides."""
        return pieces_of_all(self.groups, blocks, merge=self.merge)

    def _submit(self, job_id: Hashable, pieces: Sequence[Pieces]) -> Transfer:
        """In a buffer of the pool: a kernel reads it while it copies."""
        buffers = self.pool.take(num_descriptors(pieces))
        end_event = self._event()
        try:
            return self._queue(job_id, pieces, buffers, end_event)
        finally:
            self.pool.give_back(buffers, end_event)


def loading_handler(groups: Sequence[KVGroup]) -> TransferQueue:
    """For CPU to GPU, as serving loops ask for one."""
    return SingleDirectionOffloadingHandler(groups, gpu_to_cpu=False)
