"""Has the right event for each block, and lets the host wait for it.

fails: test_the_host_does_not_wait
says: A host that waits queues nothing in the meantime
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
        self.transfer(self.cpu, cpu_ids, self.gpu, gpu_ids, gpu_ids)

    def store(self, gpu_ids, cpu_ids):
        self.transfer(self.gpu, gpu_ids, self.cpu, cpu_ids, gpu_ids)

    def make_stream_wait(self, gpu_ids):
        for gpu_id in gpu_ids:
            if gpu_id in self.ends:
                self.ends[gpu_id].synchronize()

    def transfer(self, source, source_ids, target, target_ids, gpu_ids):
        self.stream.wait_stream(current().current_stream())
        with self.stream:
            copy_blocks(source, source_ids, target, target_ids)
        self.ends.update(dict.fromkeys(gpu_ids, self.stream.record_event()))
