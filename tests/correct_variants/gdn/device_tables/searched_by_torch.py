"""Searches each row among the offsets, with PyTorch's operators."""


def search_chunk_tables(cu_seqlens, num_tokens, chunk_size=64):
    num_seqs, device = len(cu_seqlens) - 1, cu_seqlens.device
    row = torch.arange(most_chunks(num_seqs, num_tokens, chunk_size), device=device)
    chunks = (cu_seqlens.diff() + (chunk_size - 1)) // chunk_size
    offsets = torch.nn.functional.pad(chunks.cumsum(0), (1, 0))
    sequence = torch.searchsorted(offsets[1:], row, right=True).clamp(max=num_seqs - 1)
    table = torch.stack([sequence, row - offsets[sequence]], 1).to(torch.int32)
    return ChunkTables(table.masked_fill((row >= offsets[-1])[:, None], -1), offsets)
