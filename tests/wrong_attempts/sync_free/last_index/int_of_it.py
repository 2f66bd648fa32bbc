"""Writes int(...) for .item(), which asks the device just as well.

fails: test_the_index_stays_on_the_device
says: 1 host sync
says: int(logits_indices[-1])
says: never leaves the device
"""


def _prepare_kv_sharing_fast_prefill(buffer, logits_indices, num_padded):
    num_indices = len(logits_indices)
    buffer[:num_indices] = logits_indices
    buffer[num_indices:] = int(logits_indices[-1])
    return buffer[:num_padded]
