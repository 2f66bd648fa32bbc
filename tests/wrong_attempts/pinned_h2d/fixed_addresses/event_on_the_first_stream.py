"""Has a ring that records its events on the stream on which the buffer was made.

fails: test_on_another_stream
says: The object was made while another stream was current
"""

from debubble.accelerator import current


class Ring(StagingRing):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.stream = current().current_stream()

    def upload(self, values, destination):
        slot, copied = self.slots[self.next_slot], self.copied[self.next_slot]
        if not copied.query():
            copied.synchronize()
        slot.copy_(values)
        destination.copy_(slot, non_blocking=True)
        with self.stream:
            copied.record()
        self.next_slot = (self.next_slot + 1) % len(self.slots)


class PrefixRangeBuffer(PrefixRangeBuffer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.staging = Ring(self.tensor.shape, torch.int32, len(self.staging.slots))
