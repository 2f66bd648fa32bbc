"""Has the kernel share out 64 pieces, and forgets the others.

fails: test_steps_one_after_another
says: Expected the target, in words, after copy_pieces of 130 pieces
"""


def copy_pieces(src_addrs, dst_addrs, sizes, bytes_per_chunk=LARGEST_CHUNK, own=copy_pieces):
    own(src_addrs[:64], dst_addrs[:64], sizes[:64], bytes_per_chunk)
