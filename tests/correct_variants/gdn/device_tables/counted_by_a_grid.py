"""Counts for each row how many sequences end before it, in a grid of rows and sequences."""


def search_chunk_tables(cu_seqlens, num_tokens, chunk_size=64):
    num_seqs, device = len(cu_seqlens) - 1, cu_seqlens.device
    offsets = torch.zeros(num_seqs + 1, dtype=torch.int64, device=device)
    offsets[1:] = (-(-cu_seqlens.diff() // chunk_size)).cumsum(0)
    row = torch.arange(most_chunks(num_seqs, num_tokens, chunk_size), device=device)[:, None]
    sequence = (offsets[1:] <= row).sum(1, keepdim=True)
    chunk = row - offsets.gather(0, sequence.flatten())[:, None]
    table = torch.where(row < offsets[-1:], torch.cat([sequence, chunk], 1), -1)
    return ChunkTables(table.int(), offsets)
