"""Adds up on the device, where nobody waits, but with a kernel for each sequence.

fails: test_more_sequences_are_no_more_launches
says: `cumsum` adds up all sequences by one
"""


def prepare_chunk_offsets(cu_seqlens, chunk_size=64):
    chunks = (cu_seqlens.diff() + chunk_size - 1) // chunk_size
    offsets = chunks.new_zeros(len(cu_seqlens)).long()
    for sequence in range(len(chunks)):
        offsets[sequence + 1] = offsets[sequence] + chunks[sequence]
    return offsets
