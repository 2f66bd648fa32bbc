"""Pins a buffer once, and writes to it again in each step.

fails: test_steps_that_follow_at_once_do_not_disturb_each_other
says: Take fresh pinned memory in each
"""

import torch

from debubble.accelerator import current

PINNED = torch.empty(1024, dtype=torch.int32, pin_memory=current().pin_memory)


def _init_model_kwargs(token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs):
    end = 0
    for request, length in enumerate(optimistic_seq_lens_cpu[:num_reqs].tolist()):
        start = token_type_starts.get(request, length)
        PINNED[end : end + length] = torch.arange(length) >= start
        end += length
    return {"token_type_ids": PINNED[:end].to(seq_lens.device, non_blocking=True)}
