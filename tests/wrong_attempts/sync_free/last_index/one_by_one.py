"""Copies the last index to each entry of the tail by itself.

fails: test_a_longer_tail_is_no_more_launches
says: One assignment to a slice writes the whole tail
"""


def _prepare_kv_sharing_fast_prefill(buffer, logits_indices, num_padded):
    num_indices = len(logits_indices)
    buffer[:num_indices] = logits_indices
    for place in range(num_indices, len(buffer)):
        buffer[place].copy_(logits_indices[-1])
    return buffer[:num_padded]
