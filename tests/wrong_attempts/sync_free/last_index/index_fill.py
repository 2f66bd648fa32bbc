"""Fills the tail with a tensor, by a call that makes a number of it.

fails: test_the_index_stays_on_the_device
says: index_fill_
"""

import torch


def _prepare_kv_sharing_fast_prefill(buffer, logits_indices, num_padded):
    num_indices = len(logits_indices)
    buffer[:num_indices] = logits_indices
    tail = torch.arange(num_indices, len(buffer), device=buffer.device)
    buffer.index_fill_(0, tail, logits_indices[-1])
    return buffer[:num_padded]
