"""Lets loads wait for compute, and stores for nothing: a block that is full does not change.

fails: test_a_store_waits_until_its_block_is_computed
says: Let the stream of the transfer wait for the current stream
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
        self.ends = {}

    def load(self, cpu_ids, gpu_ids):
        self.stream.wait_stream(current().current_stream())
        self.transfer(self.cpu, cpu_ids, self.gpu, gpu_ids, gpu_ids)

    def store(self, gpu_ids, cpu_ids):
        self.transfer(self.gpu, gpu_ids, self.cpu, cpu_ids, gpu_ids)

    def make_stream_wait(self, gpu_ids):
        for gpu_id in gpu_ids:
            if gpu_id in self.ends:
                current().current_stream().wait_event(self.ends[gpu_id])

    def transfer(self, source, source_ids, target, target_ids, gpu_ids):
        with self.stream:
            copy_blocks(source, source_ids, target, target_ids)
        self.ends.update(dict.fromkeys(gpu_ids, self.stream.record_event()))
