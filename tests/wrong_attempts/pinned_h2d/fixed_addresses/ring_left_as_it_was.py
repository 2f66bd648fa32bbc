"""Takes pinned buffers in turn with their events, and zeroes none of them.

fails: test_steps_one_after_another
says: rows of a pinned buffer that an earlier step has filled
"""

from debubble.accelerator import current


class PrefixRangeBuffer(PrefixRangeBuffer):
    def __init__(self, *args, steps_in_flight=2, **options):
        super().__init__(*args, steps_in_flight=steps_in_flight, **options)
        self.depth = steps_in_flight

    def _upload(self, rows):
        if not hasattr(self, "ring"):
            shape, dtype = self.tensor.shape, torch.int32
            new = lambda: torch.zeros(shape, dtype=dtype, pin_memory=current().pin_memory)
            self.ring = [(new(), current().event()) for _ in range(self.depth)]
        buffer, event = self.ring[0]
        self.ring = [*self.ring[1:], self.ring[0]]
        event.synchronize() if not event.query() else None
        fill_rows(buffer, rows)
        self.tensor.copy_(buffer, non_blocking=True)
        event.record()
        self.holds_ranges = bool(rows)
