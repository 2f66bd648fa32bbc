"""Joins the indices and the expanded last index, and copies them over the buffer."""


def _prepare_kv_sharing_fast_prefill(buffer, logits_indices, num_padded):
    check_indices(buffer, logits_indices, num_padded)
    tail = logits_indices[-1:].expand(len(buffer) - len(logits_indices))
    buffer.copy_(torch.cat([logits_indices, tail]))
    return buffer[:num_padded]
