"""Has no event before a slot's first copy, and takes each event from the stream."""


class StagingRing:
    def __init__(self, shape, dtype, depth):
        self.depth, self.count, self.events = depth, 0, {}
        self.memory = torch.zeros((depth, *shape), dtype=dtype, pin_memory=current().pin_memory)

    def upload(self, values, destination):
        number = self.count % self.depth
        self.count += 1
        last = self.events.pop(number, None)
        if last is not None and not last.query():
            last.synchronize()
        rows = self.memory[number].narrow(0, 0, values.shape[0])
        rows.copy_(values)
        destination.copy_(rows, non_blocking=True)
        self.events[number] = current().current_stream().record_event()
