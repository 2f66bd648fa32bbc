"""Rounds the starts up, as if the tokens of all sequences filled the same chunks.

fails: test_they_say_what_comes_before_each_sequence
fails: test_chunks_may_be_of_another_size
says: Each sequence begins a chunk of its own
"""


def prepare_chunk_offsets(cu_seqlens, chunk_size=64):
    return ((cu_seqlens + chunk_size - 1) // chunk_size).long()
