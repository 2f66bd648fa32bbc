"""Always keeps a clone, and copies the last index into the tail as a row of one."""


def _prepare_kv_sharing_fast_prefill(buffer, logits_indices, num_padded):
    check_indices(buffer, logits_indices, num_padded)
    kept = logits_indices.to(buffer.dtype, copy=True)
    held = kept.numel()
    buffer.narrow(0, held, buffer.numel() - held).copy_(kept[held - 1 :])
    buffer.narrow(0, 0, held).copy_(kept)
    return buffer.narrow(0, 0, num_padded)
