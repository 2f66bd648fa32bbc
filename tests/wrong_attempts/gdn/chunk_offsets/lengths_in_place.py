"""Turns the starts into lengths in place, and back into starts afterwards.

fails: test_each_step_has_its_own_offsets
says: wrote to it, and then what was there before
"""


def prepare_chunk_offsets(cu_seqlens, chunk_size=FLA_CHUNK_SIZE):
    cu_seqlens[1:].sub_(cu_seqlens[:-1].clone())
    chunks = (cu_seqlens[1:] + (chunk_size - 1)) // chunk_size
    cu_seqlens.cumsum_(0)
    return torch.nn.functional.pad(chunks.cumsum(0), (1, 0))
