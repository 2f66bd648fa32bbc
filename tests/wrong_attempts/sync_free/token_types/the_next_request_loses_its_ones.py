"""Counts up at each start and down at each end, also for a start beyond its request's end.

fails: test_ones_begin_at_the_start
fails: test_steps_one_after_another
says: `token_type_ids` of requests of [3, 4] tokens
"""

import numpy as np
import torch

from debubble.accelerator import current
from solutions.sync_free.checks.requests import check_token_types


def _init_model_kwargs(token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs):
    lengths = check_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    ends, total = np.cumsum(lengths), int(lengths.sum())
    change = np.zeros(total + 1, np.int32)
    for request, start in token_type_starts.items():
        change[min(int(ends[request] - lengths[request]) + max(start, 0), total)] += 1
        change[int(ends[request])] -= 1
    ids = torch.from_numpy(np.cumsum(change)[:total].clip(0, 1).astype(np.int32))
    ids = ids.pin_memory() if current().pin_memory else ids
    return {"token_type_ids": ids.to(seq_lens.device, non_blocking=True)}
