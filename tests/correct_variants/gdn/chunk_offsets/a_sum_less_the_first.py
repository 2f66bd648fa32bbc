"""Sums in float64, which is exact for such numbers, after an empty chunk."""


def prepare_chunk_offsets(cu_seqlens, chunk_size=64):
    chunks = torch.ceil(cu_seqlens.diff().double() / chunk_size)
    zero = torch.zeros(1, dtype=torch.int64, device=cu_seqlens.device)
    return torch.cat([zero, chunks.cumsum(0).long()])
