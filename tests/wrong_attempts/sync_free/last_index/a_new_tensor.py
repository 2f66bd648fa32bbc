"""Makes a new tensor in each step, and leaves the buffer alone.

fails: test_the_last_index_is_repeated
fails: test_nothing_of_a_larger_step_stays_behind
fails: test_a_replay_reads_the_indices_of_its_step
says: reads its address in each replay
"""

import torch


def _prepare_kv_sharing_fast_prefill(buffer, logits_indices, num_padded):
    missing = num_padded - len(logits_indices)
    return torch.cat([logits_indices, logits_indices[-1:].expand(missing)])
