"""Keeps the type of the starts.

fails: test_they_say_what_comes_before_each_sequence
fails: test_chunks_may_be_of_another_size
says: its dtype is torch.int32 and not torch.int64
"""

import torch


def prepare_chunk_offsets(cu_seqlens, chunk_size=64):
    chunks = (cu_seqlens.diff() + chunk_size - 1) // chunk_size
    return torch.nn.functional.pad(chunks.cumsum(0, dtype=cu_seqlens.dtype), (1, 0))
