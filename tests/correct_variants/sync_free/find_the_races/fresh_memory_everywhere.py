"""Has no ring: pins the positions again in each step, and keeps the tokens with their event."""


class DecodeLoop(DecodeLoop):
    def __init__(self, decode, num_requests):
        self.decode, self.copying, self.last = decode, current().stream(), None
        self.tokens = torch.zeros(num_requests, dtype=torch.int64, device=current().device)

    def step(self, positions):
        pinned = torch.empty_like(positions, pin_memory=current().pin_memory).copy_(positions)
        uploaded = pinned.to(current().device, non_blocking=True)
        self.tokens = self.decode(self.tokens, uploaded)
        written = current().current_stream().record_event()
        host = torch.empty_like(self.tokens, device="cpu", pin_memory=current().pin_memory)
        self.copying.wait_event(written)
        with self.copying:
            host.copy_(self.tokens, non_blocking=True)
        before, self.last = self.last, (host, self.copying.record_event(), self.tokens)
        return before and self.read(before)

    def finish(self):
        return self.last and self.read(self.last)

    def read(self, on_its_way):
        host, arrived, _ = on_its_way
        if not arrived.query():
            arrived.synchronize()
        return host.tolist()
