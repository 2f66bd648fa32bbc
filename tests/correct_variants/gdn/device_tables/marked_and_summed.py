"""Adds one where each sequence's chunks begin, and sums that up to a row's sequence."""


def search_chunk_tables(cu_seqlens, num_tokens, chunk_size=64):
    num_seqs, device = len(cu_seqlens) - 1, cu_seqlens.device
    chunks = (cu_seqlens.diff() + (chunk_size - 1)) // chunk_size
    offsets = torch.cat([cu_seqlens.new_zeros(1, dtype=torch.int64), chunks.cumsum(0)])
    num_rows = most_chunks(num_seqs, num_tokens, chunk_size)
    marks = torch.zeros(num_rows + 1, dtype=torch.int64, device=device)
    marks.scatter_add_(0, offsets[1:], torch.ones_like(offsets[1:]))
    sequence = marks.cumsum(0)[:num_rows]
    row = torch.arange(num_rows, device=device)
    chunk = row - offsets[sequence.clamp(max=num_seqs)]
    table = torch.stack([sequence, chunk], 1).masked_fill((row >= offsets[-1]).unsqueeze(1), -1)
    return ChunkTables(table.to(torch.int32), offsets)
