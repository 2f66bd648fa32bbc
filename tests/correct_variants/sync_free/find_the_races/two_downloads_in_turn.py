"""Downloads into two pinned rows in turn: each is read before the step that writes to it again."""


class DecodeLoop(DecodeLoop):
    def __init__(self, decode, num_requests):
        super().__init__(decode, num_requests)
        pin = current().pin_memory
        self.host = torch.zeros((2, num_requests), dtype=torch.int64, pin_memory=pin)
        self.arrived, self.count = [current().event(), current().event()], 0

    def step(self, positions):
        uploaded = torch.empty_like(self.tokens)
        self.staging.upload(positions, uploaded)
        self.tokens = self.decode(self.tokens, uploaded)
        self.copying.wait_stream(current().current_stream())
        with self.copying:
            self.host[self.count % 2].copy_(self.tokens, non_blocking=True)
            self.arrived[self.count % 2].record()
        self.tokens.record_stream(self.copying)
        self.count += 1
        return self.read(self.count - 2) if self.count > 1 else None

    def finish(self):
        return self.read(self.count - 1) if self.count else None

    def read(self, number):
        if not self.arrived[number % 2].query():
            self.arrived[number % 2].synchronize()
        return self.host[number % 2].tolist()
