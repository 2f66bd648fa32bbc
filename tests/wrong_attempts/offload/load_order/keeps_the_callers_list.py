"""Keeps the list of each load's blocks, and looks the blocks up in it later.

fails: test_on_another_stream
says: nothing orders the two
"""


class BlockTransfers(BlockTransfers):
    def __init__(self, gpu, cpu):
        super().__init__(gpu, cpu)
        self.done = []

    def _transfer(self, source, source_ids, target, target_ids, gpu_ids):
        super()._transfer(source, source_ids, target, target_ids, gpu_ids)
        self.done = [*self.done[-8:], (gpu_ids, self.stream.record_event())]

    def make_stream_wait(self, gpu_ids):
        for ids, event in self.done:
            if any(gpu_id in ids for gpu_id in gpu_ids):
                current().current_stream().wait_event(event)
