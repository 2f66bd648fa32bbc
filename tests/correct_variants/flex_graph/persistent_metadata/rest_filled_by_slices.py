"""Writes the step first, and then fills the slices after it."""


def persistent_metadata(buffers, query_start_loc, seq_lens, pages):
    requests, groups = len(seq_lens), len(pages)
    copy_to_persistent(buffers.query_start_loc, query_start_loc)
    buffers.query_start_loc[requests + 1 :] = query_start_loc[-1]
    copy_to_persistent(buffers.seq_lens, seq_lens)
    copy_to_persistent(buffers.decode_offset, seq_lens - query_start_loc.diff())
    buffers.seq_lens[requests:].zero_()
    buffers.decode_offset[requests:].zero_()
    copy_to_persistent(buffers.kv_indices, pages)
    buffers.kv_indices[groups:] = -1
    buffers.kv_indices[:groups, pages.shape[1] :] = -1
    torch.sum(buffers.kv_indices >= 0, 1, dtype=torch.int32, out=buffers.kv_num_blocks)
    token = torch.arange(len(buffers.doc_ids), device=seq_lens.device)
    ended = (buffers.query_start_loc[1:] <= token[:, None]).sum(1)
    buffers.doc_ids.copy_(torch.where(token < query_start_loc[-1], ended, 0))
    return buffers
