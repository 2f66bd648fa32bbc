"""Records one event anew for each transfer, which is then always that of the last one.

fails: test_a_stream_waits_for_its_own_blocks_alone
says: Keep an event for each transfer
"""

from debubble.accelerator import current


def copy_blocks(source, source_ids, target, target_ids):
    nbytes = source[0].nbytes
    for source_id, target_id in zip(source_ids, target_ids, strict=True):
        start, to = source.data_ptr() + source_id * nbytes, target.data_ptr() + target_id * nbytes
        current().copy_bytes(start, to, nbytes)


class BlockTransfers:
    def __init__(self, gpu, cpu):
        self.gpu, self.cpu = gpu, cpu
        self.stream = current().stream()
        self.end = current().event()

    def load(self, cpu_ids, gpu_ids):
        self.transfer(self.cpu, cpu_ids, self.gpu, gpu_ids, gpu_ids)

    def store(self, gpu_ids, cpu_ids):
        self.transfer(self.gpu, gpu_ids, self.cpu, cpu_ids, gpu_ids)

    def make_stream_wait(self, gpu_ids):
        current().current_stream().wait_event(self.end)

    def transfer(self, source, source_ids, target, target_ids, gpu_ids):
        self.stream.wait_stream(current().current_stream())
        with self.stream:
            copy_blocks(source, source_ids, target, target_ids)
            self.end.record()
