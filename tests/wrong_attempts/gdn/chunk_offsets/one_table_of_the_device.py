"""Keeps one table on the device for each number of sequences, and writes to it.

fails: test_results_stay_as_they_are
says: to have memory of its own
"""

TABLES = {}


def prepare_chunk_offsets(cu_seqlens, chunk_size=64):
    chunks = (cu_seqlens.diff() + (chunk_size - 1)) // chunk_size
    kept = TABLES.get((len(cu_seqlens), cu_seqlens.device))
    if kept is None:
        kept = torch.zeros(len(cu_seqlens), dtype=torch.int64, device=cu_seqlens.device)
        TABLES[len(cu_seqlens), cu_seqlens.device] = kept
    kept[1:] = chunks.cumsum(0)
    return kept
