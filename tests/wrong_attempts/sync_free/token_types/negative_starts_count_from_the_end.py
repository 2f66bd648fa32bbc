"""Writes the ones by a slice from the start on, which counts a negative start from the end.

fails: test_steps_one_after_another
says: Expected item 1 of what _init_model_kwargs of [5, 2, 1] tokens and the starts {0: -1, 1:
"""

import numpy as np
import torch

from debubble.accelerator import current
from solutions.sync_free.checks.requests import check_token_types


def _init_model_kwargs(token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs):
    lengths = check_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    ids = np.zeros(int(lengths.sum()), np.int32)
    first = 0
    for request, length in enumerate(lengths.tolist()):
        if request in token_type_starts:
            ids[first : first + length][token_type_starts[request] :] = 1
        first += length
    ids = torch.from_numpy(ids)
    ids = ids.pin_memory() if current().pin_memory else ids
    return {"token_type_ids": ids.to(seq_lens.device, non_blocking=True)}
