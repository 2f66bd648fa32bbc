"""Waits for the last copy of a pinned row before it writes to the row, done or not."""

from debubble.accelerator import current


class PersistentArrays:
    def __init__(self, sizes, device, steps_in_flight=2):
        ends = np.cumsum([0, *sizes.values()]).tolist()
        self.places = {name: slice(*ends[n : n + 2]) for n, name in enumerate(sizes)}
        self.numbers = torch.zeros(ends[-1], dtype=torch.int32, device=device)
        shape, pin = (steps_in_flight, ends[-1]), current().pin_memory
        self.rows = torch.zeros(shape, dtype=torch.int32, pin_memory=pin)
        self.copied, self.turn = [None] * steps_in_flight, -1

    def __getitem__(self, name):
        return self.numbers[self.places[name]]

    def upload(self, step):
        self.turn = (self.turn + 1) % len(self.copied)
        if self.copied[self.turn] is not None:
            self.copied[self.turn].synchronize()
        row = self.rows[self.turn]
        for name, (values, padding) in step.items():
            array = row.numpy()[self.places[name]]
            array[: len(values)] = values
            array[len(values) :] = padding or 0
        self.numbers.copy_(row, non_blocking=True)
        self.copied[self.turn] = current().current_stream().record_event()
