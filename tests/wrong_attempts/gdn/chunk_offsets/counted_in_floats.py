"""Divides, and rounds up: by floats, which have no room for large numbers.

fails: test_all_digits_of_large_numbers_are_there
says: 16777217
"""


def prepare_chunk_offsets(cu_seqlens, chunk_size=FLA_CHUNK_SIZE):
    chunks = torch.ceil(cu_seqlens.diff() / chunk_size)
    return torch.nn.functional.pad(chunks.cumsum(0), (1, 0)).long()
