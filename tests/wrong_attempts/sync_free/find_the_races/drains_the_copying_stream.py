"""Waits for all that is queued on the copying stream, this step's copy and so this step included.

fails: test_the_device_has_a_step_to_do_when_step_returns
fails: test_no_step_waits_for_the_copy_of_its_tokens
says: waited until step 0 was done
says: self.copying.synchronize()
says: tokens of the step *before*
"""

import torch

from debubble.accelerator import current


class DecodeLoop:
    def __init__(self, decode, num_requests):
        accelerator = current()
        self.decode = decode
        self.tokens = torch.zeros(num_requests, dtype=torch.int64, device=accelerator.device)
        self.staged = torch.zeros_like(self.tokens, device="cpu").pin_memory()
        self.copying = accelerator.stream()
        self.on_host = None

    def step(self, positions):
        self.staged.copy_(positions)
        uploaded = self.staged.to(self.tokens.device, non_blocking=True)
        self.tokens = self.decode(self.tokens, uploaded)
        self.copying.wait_stream(current().current_stream())
        of_step_before = self.on_host
        with self.copying:
            self.on_host = self.tokens.to("cpu", non_blocking=True)
        self.copying.synchronize()
        return None if of_step_before is None else of_step_before.tolist()

    def finish(self):
        return self.on_host.tolist()
