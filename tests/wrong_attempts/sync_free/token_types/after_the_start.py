"""Off by one: the ones begin behind the start.

fails: test_ones_begin_at_the_start
fails: test_steps_that_follow_at_once_do_not_disturb_each_other
says: position `start` itself has a 1
"""

import torch

from debubble.accelerator import current


def _init_model_kwargs(token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs):
    lengths = optimistic_seq_lens_cpu[:num_reqs].tolist()
    pinned = torch.empty(sum(lengths), dtype=torch.int32, pin_memory=current().pin_memory)
    end = 0
    for request, length in enumerate(lengths):
        start = token_type_starts.get(request, length)
        pinned[end : end + length] = torch.arange(length) > start
        end += length
    return {"token_type_ids": pinned.to(seq_lens.device, non_blocking=True)}
