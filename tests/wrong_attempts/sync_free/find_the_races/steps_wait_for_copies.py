"""Orders the two streams both ways, so that each step waits until its predecessor was copied.

fails: test_no_step_waits_for_the_copy_of_its_tokens
says: makes them wait for that copy
says: never the other way round
"""

import torch

from debubble.accelerator import current


class DecodeLoop:
    def __init__(self, decode, num_requests):
        accelerator = current()
        self.decode = decode
        self.num_requests = num_requests
        self.tokens = torch.zeros(num_requests, dtype=torch.int64, device=accelerator.device)
        self.copying = accelerator.stream()
        self.pending = None

    def step(self, positions):
        accelerator = current()
        computing = accelerator.current_stream()
        staged = torch.empty(
            self.num_requests, dtype=torch.int64, pin_memory=accelerator.pin_memory
        )
        uploaded = staged.copy_(positions).to(accelerator.device, non_blocking=True)
        self.tokens = self.decode(self.tokens, uploaded)
        step_before = self.pending
        self.copying.wait_stream(computing)
        with self.copying:
            self.pending = self.tokens.to("cpu", non_blocking=True), self.copying.record_event()
        computing.wait_stream(self.copying)
        return self._read(step_before)

    def finish(self):
        return self._read(self.pending)

    def _read(self, pending):
        if pending is None:
            return None
        on_host, arrived = pending
        if not arrived.query():
            arrived.synchronize()
        return on_host.tolist()
