"""Unpacks the pairs of blocks, also where there is none.

fails: test_steps_one_after_another
says: It came from a load of 1 block.
"""


class BlockTransfers(BlockTransfers):
    def load(self, cpu_ids, gpu_ids):
        sources, targets = zip(*zip(cpu_ids, gpu_ids, strict=True), strict=True)
        super().load(sources, targets)
