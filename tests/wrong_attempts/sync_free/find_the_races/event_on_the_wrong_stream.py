"""Records the event on the stream that computes: it knows nothing of the copy.

may fail: test_it_is_right_when_nobody_waits
fails: test_tokens_are_read_once_they_have_arrived
says: right behind the copy, on its stream
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
        staged = torch.empty(
            self.num_requests, dtype=torch.int64, pin_memory=accelerator.pin_memory
        )
        uploaded = staged.copy_(positions).to(accelerator.device, non_blocking=True)
        self.tokens = self.decode(self.tokens, uploaded)
        self.copying.wait_stream(accelerator.current_stream())
        step_before = self.pending
        with self.copying:
            on_host = self.tokens.to("cpu", non_blocking=True)
        self.pending = on_host, self.tokens, accelerator.current_stream().record_event()
        return self._read(step_before)

    def finish(self):
        return self._read(self.pending)

    def _read(self, pending):
        if pending is None:
            return None
        on_host, _, arrived = pending
        arrived.synchronize()
        return on_host.tolist()
