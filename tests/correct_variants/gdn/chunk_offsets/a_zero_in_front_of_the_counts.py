"""Puts the zero before the counts, and sums all of them."""


def prepare_chunk_offsets(cu_seqlens, chunk_size=64):
    lengths = cu_seqlens.diff(prepend=cu_seqlens[:1])
    return lengths.add(chunk_size - 1).div(chunk_size, rounding_mode="floor").cumsum(0)
