"""Launches nothing for an empty list alone: pieces of no bytes are launched.

fails: test_nothing_to_copy
says: copy_pieces of pieces of no bytes to launch no kernel
"""

copy_what_there_is = copy_pieces


def copy_pieces(src_addrs, dst_addrs, sizes, bytes_per_chunk=LARGEST_CHUNK):
    if len(sizes) and not sizes.any():
        sizes = torch.full_like(sizes, 8)
        dst_addrs = src_addrs
    copy_what_there_is(src_addrs, dst_addrs, sizes, bytes_per_chunk)
