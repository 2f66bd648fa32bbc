"""Sums into the end of zeros that are made on the device."""


def prepare_chunk_offsets(cu_seqlens, chunk_size=64):
    chunks = (cu_seqlens[1:] - cu_seqlens[:-1] + (chunk_size - 1)) // chunk_size
    offsets = chunks.new_zeros(len(cu_seqlens), dtype=torch.int64)
    torch.cumsum(chunks, 0, out=offsets[1:])
    return offsets
