"""Takes the place of the last index for the index.

fails: test_the_last_index_is_repeated
fails: test_nothing_of_a_larger_step_stays_behind
fails: test_a_replay_reads_the_indices_of_its_step
says: the number that it holds, and not how many there are
"""


def _prepare_kv_sharing_fast_prefill(buffer, logits_indices, num_padded):
    num_indices = len(logits_indices)
    buffer[:num_indices] = logits_indices
    buffer[num_indices:].fill_(num_indices - 1)
    return buffer[:num_padded]
