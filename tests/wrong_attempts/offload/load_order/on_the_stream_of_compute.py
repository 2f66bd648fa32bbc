"""Queues all copies where compute is: in order, and one thing after the other.

fails: test_compute_goes_on_beside_a_transfer
fails: test_a_stream_waits_for_its_own_blocks_alone
says: a stream does one thing after the other
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
        self.stream = current().current_stream()

    def load(self, cpu_ids, gpu_ids):
        with self.stream:
            copy_blocks(self.cpu, cpu_ids, self.gpu, gpu_ids)

    def store(self, gpu_ids, cpu_ids):
        with self.stream:
            copy_blocks(self.gpu, gpu_ids, self.cpu, cpu_ids)

    def make_stream_wait(self, gpu_ids):
        if current().current_stream() != self.stream:
            current().current_stream().wait_stream(self.stream)
