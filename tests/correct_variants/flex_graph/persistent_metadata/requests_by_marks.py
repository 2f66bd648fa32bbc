"""Finds each token's request by marks where requests begin, summed up; returns a new tuple."""


def persistent_metadata(buffers, query_start_loc, seq_lens, pages):
    tokens = len(buffers.doc_ids)
    marks = torch.zeros(tokens + 1, dtype=torch.int64, device=seq_lens.device)
    ends = query_start_loc[1:].long()
    marks.scatter_add_(0, ends, torch.ones_like(ends))
    exists = torch.arange(tokens, device=seq_lens.device) < query_start_loc[-1]
    buffers.doc_ids.copy_(marks.cumsum(0)[:tokens] * exists)
    values = query_start_loc, seq_lens, seq_lens - query_start_loc.diff()
    for buffer, numbers, behind in zip(buffers, values, (values[0][-1], 0, 0), strict=False):
        _write(buffer, numbers, behind)
    _write(buffers.kv_num_blocks, pages.ge(0).sum(1, dtype=torch.int32), 0)
    _write(buffers.kv_indices, pages, -1)
    return MetadataTensors(*buffers)
