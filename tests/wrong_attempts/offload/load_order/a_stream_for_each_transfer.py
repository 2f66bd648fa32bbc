"""Gives each transfer a stream, and no two of them an order.

fails: test_transfers_run_in_their_order
says: each transfer has to wait for the end of the one before it
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
        self.ends = {}

    def load(self, cpu_ids, gpu_ids):
        self.transfer(self.cpu, cpu_ids, self.gpu, gpu_ids, gpu_ids)

    def store(self, gpu_ids, cpu_ids):
        self.transfer(self.gpu, gpu_ids, self.cpu, cpu_ids, gpu_ids)

    def make_stream_wait(self, gpu_ids):
        for gpu_id in gpu_ids:
            if gpu_id in self.ends:
                current().current_stream().wait_event(self.ends[gpu_id])

    def transfer(self, source, source_ids, target, target_ids, gpu_ids):
        stream = current().stream()
        stream.wait_stream(current().current_stream())
        with stream:
            copy_blocks(source, source_ids, target, target_ids)
        self.ends.update(dict.fromkeys(gpu_ids, stream.record_event()))
