"""Keeps both tables on the device for each size, and fills them again.

fails: test_results_stay_as_they_are
says: to have memory of its own
"""

TABLES = {}


def search_chunk_tables(cu_seqlens, num_tokens, chunk_size=64, own=search_chunk_tables):
    tables = own(cu_seqlens, num_tokens, chunk_size)
    key = tuple(tables.chunk_indices.shape), len(cu_seqlens)
    kept = TABLES.setdefault(key, ChunkTables(*map(torch.empty_like, tables)))
    for one, other in zip(kept, tables, strict=True):
        one.copy_(other)
    return kept
