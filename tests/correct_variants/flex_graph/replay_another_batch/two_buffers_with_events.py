"""Keeps views by name, and takes two pinned buffers in turn, with an event after each copy."""

from debubble.accelerator import current


class PersistentArrays:
    def __init__(self, sizes, device, steps_in_flight=2):
        total, pin = sum(sizes.values()), current().pin_memory
        self.numbers = torch.zeros(total, dtype=torch.int32, device=device)
        self.views = dict(zip(sizes, self.numbers.split([*sizes.values()]), strict=True))
        self.slots = [
            (torch.zeros(total, dtype=torch.int32, pin_memory=pin), current().event())
            for _ in range(steps_in_flight)
        ]

    def __getitem__(self, name):
        return self.views[name]

    def upload(self, step):
        self.slots.append(self.slots.pop(0))
        staged, copied = self.slots[-1]
        if not copied.query():
            copied.synchronize()
        parts = staged.split([len(view) for view in self.views.values()])
        for name, part in zip(self.views, parts, strict=True):
            values, padding = step[name]
            part[: len(values)] = torch.as_tensor(np.asarray(values))
            if padding is not None:
                part[len(values) :] = padding
        self.numbers.copy_(staged, non_blocking=True)
        copied.record()
