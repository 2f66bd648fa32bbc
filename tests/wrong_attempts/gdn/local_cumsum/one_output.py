"""Keeps one output for each shape, and writes the sums of every layer there.

fails: test_results_stay_as_they_are
says: to have memory of its own
"""

OUTPUTS = {}


def chunk_local_cumsum(g, chunk_size, cu_seqlens, chunk_indices, own=chunk_local_cumsum):
    sums = own(g, chunk_size, cu_seqlens, chunk_indices)
    return OUTPUTS.setdefault(g.shape, torch.empty_like(sums)).copy_(sums)
