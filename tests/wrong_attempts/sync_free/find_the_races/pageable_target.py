"""Copies the tokens into memory that is not pinned: the driver holds the host until they are there.

fails: test_the_device_has_a_step_to_do_when_step_returns
fails: test_no_step_waits_for_the_copy_of_its_tokens
says: waited until step 0 was done
says: on_host.copy_(self.tokens, non_blocking=True)
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
        step_before = self.pending
        self.copying.wait_stream(accelerator.current_stream())
        on_host = torch.empty(self.num_requests, dtype=torch.int64)
        with self.copying:
            on_host.copy_(self.tokens, non_blocking=True)
            self.pending = on_host, self.tokens, self.copying.record_event()
        return self._read(step_before)

    def finish(self):
        return self._read(self.pending)

    def _read(self, pending):
        if pending is None:
            return None
        on_host, _, arrived = pending
        if not arrived.query():
            arrived.synchronize()
        return on_host.tolist()
