"""Asks for pinned memory on every platform.

fails: test_it_works_where_memory_cannot_be_pinned
says: asked for pinned memory all the same
"""


class PrefixRangeBuffer(PrefixRangeBuffer):
    def _upload(self, rows):
        padded = torch.zeros(self.tensor.shape, dtype=torch.int32, pin_memory=True)
        fill_rows(padded, rows)
        self.tensor.copy_(padded, non_blocking=True)
        self.holds_ranges = bool(rows)
