"""Repeats zeros and ones on the host with numpy, and pins a copy of that."""

import numpy as np

from debubble.accelerator import current


def _init_model_kwargs(token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs):
    lengths = check_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    starts = [token_type_starts.get(row, length) for row, length in enumerate(lengths)]
    first = np.clip(np.array(starts, np.int64), 0, lengths)
    counts = np.stack([first, lengths - first], 1).reshape(-1)
    ids = np.repeat(np.tile(np.array([0, 1], np.int32), num_reqs), counts)
    staged = torch.empty(len(ids), dtype=torch.int32, pin_memory=current().pin_memory)
    staged.copy_(torch.from_numpy(ids))
    return {"token_type_ids": staged.to(seq_lens.device, non_blocking=True)}
