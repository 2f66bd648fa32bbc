"""Keeps one table on the device for each number of rows, and copies to it.

fails: test_results_stay_as_they_are
says: to have memory of its own
"""

TABLES = {}


def prepare_chunk_indices(cu_seqlens, cu_seqlens_cpu, chunk_size=64, own=prepare_chunk_indices):
    table = own(cu_seqlens, cu_seqlens_cpu, chunk_size)
    return TABLES.setdefault(len(table), torch.empty_like(table)).copy_(table)
