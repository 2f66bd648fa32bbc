"""Forgets the last chunk of a sequence where it is not full.

fails: test_they_say_what_comes_before_each_sequence
fails: test_chunks_may_be_of_another_size
says: a last chunk that is not full is a chunk all the same
"""

import torch


def prepare_chunk_offsets(cu_seqlens, chunk_size=64):
    chunks = cu_seqlens.diff() // chunk_size
    return torch.nn.functional.pad(chunks.cumsum(0), (1, 0))
