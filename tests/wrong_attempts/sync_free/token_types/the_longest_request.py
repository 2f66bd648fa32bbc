"""Makes a grid as wide as the longest request, also without requests.

fails: test_steps_one_after_another
says: It came from _init_model_kwargs of [] tokens and the starts {}.
"""

import numpy as np
import torch

from debubble.accelerator import current
from solutions.sync_free.checks.requests import check_token_types


def _init_model_kwargs(token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs):
    lengths = check_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    position = np.arange(lengths.max())
    starts = np.array([token_type_starts.get(r, position.size) for r in range(num_reqs)])
    ids = (position >= starts[:, None]) & (position < lengths[:, None])
    ids = ids[position < lengths[:, None]].astype(np.int32)
    ids = torch.from_numpy(ids)
    ids = ids.pin_memory() if current().pin_memory else ids
    return {"token_type_ids": ids.to(seq_lens.device, non_blocking=True)}
