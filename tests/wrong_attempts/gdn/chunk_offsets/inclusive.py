"""Sums up to each sequence and includes it: the first number is not 0.

fails: test_they_say_what_comes_before_each_sequence
fails: test_chunks_may_be_of_another_size
says: what comes before the first one is 0
"""


def prepare_chunk_offsets(cu_seqlens, chunk_size=64):
    chunks = (cu_seqlens.diff() + chunk_size - 1) // chunk_size
    return chunks.cumsum(0)
