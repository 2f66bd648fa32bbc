"""Sets a 1 at each start, also where the start lies behind the request's end.

fails: test_ones_begin_at_the_start
fails: test_steps_one_after_another
says: Expected item 1 of what _init_model_kwargs of [5, 2, 1] tokens and the starts {0: -1, 1:
"""

import numpy as np
import torch

from debubble.accelerator import current
from solutions.sync_free.checks.requests import check_token_types


def _init_model_kwargs(token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs):
    lengths = check_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    firsts = np.concatenate(([0], lengths.cumsum()))
    marks = np.zeros(firsts[-1] + 1, np.int32)
    for request in range(num_reqs):
        start = token_type_starts.get(request, lengths[request])
        marks[min(firsts[request] + start, firsts[-1])] += 1
        marks[firsts[request + 1]] -= 1
    ids = torch.from_numpy(marks.cumsum()[:-1].astype(np.int32))
    ids = ids.pin_memory() if current().pin_memory else ids
    return {"token_type_ids": ids.to(seq_lens.device, non_blocking=True)}
