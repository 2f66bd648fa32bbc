"""Copies the rows of the step, and zeroes the rows after them on the device."""


class PrefixRangeBuffer(PrefixRangeBuffer):
    def _upload(self, rows):
        held = len(rows)
        self.tensor[held:].zero_()
        if rows:
            padded = torch.zeros(
                (held, *self.tensor.shape[1:]), dtype=torch.int32, pin_memory=current().pin_memory
            )
            fill_rows(padded, rows)
            self.tensor[:held].copy_(padded, non_blocking=True)
        self.holds_ranges = bool(rows)
