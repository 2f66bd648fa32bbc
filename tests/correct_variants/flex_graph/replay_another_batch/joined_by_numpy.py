"""Pads each array by numpy and joins them, in the order of their names."""


class PersistentArrays:
    def __init__(self, sizes, device, steps_in_flight=2):
        self.names, self.sizes = sorted(sizes), dict(sizes)
        starts = np.cumsum([0, *(sizes[name] for name in self.names)]).tolist()
        self.starts = dict(zip(self.names, starts, strict=False))
        self.numbers = torch.zeros(starts[-1], dtype=torch.int32, device=device)
        self.ring = StagingRing((starts[-1],), torch.int32, steps_in_flight)

    def __getitem__(self, name):
        return self.numbers.narrow(0, self.starts[name], self.sizes[name])

    def upload(self, step):
        parts = []
        for name in self.names:
            values, padding = step[name]
            left = self.sizes[name] - len(values)
            parts += [np.asarray(values, np.int32), np.full(left, padding or 0, np.int32)]
        self.ring.upload(torch.from_numpy(np.concatenate(parts)), self.numbers)
