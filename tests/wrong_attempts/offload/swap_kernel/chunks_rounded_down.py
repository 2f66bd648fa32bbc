"""Divides a size by that of a chunk, and loses what is left.

fails: test_each_piece_arrives
fails: test_nothing_is_written_behind_the_end
fails: test_stores_are_pieces_too
fails: test_all_pieces_share_one_launch
says: so their number is rounded up
"""

import triton
import triton.language as tl

from debubble.accelerator import ByAddress, Work, launch


@triton.jit
def copy_kernel(src_addrs, dst_addrs, sizes, num_pieces, chunks, WORDS: tl.constexpr):
    lane = tl.arange(0, WORDS)
    for item in range(tl.program_id(0), num_pieces * chunks, tl.num_programs(0)):
        piece = item // chunks
        word = (item % chunks) * WORDS + lane
        source = tl.load(src_addrs + piece).to(tl.pointer_type(tl.int64))
        target = tl.load(dst_addrs + piece).to(tl.pointer_type(tl.int64))
        exists = word < tl.load(sizes + piece) // 8
        tl.store(target + word, tl.load(source + word, mask=exists), mask=exists)


def copy_pieces(src_addrs, dst_addrs, sizes):
    sources, targets, nbytes = src_addrs.numpy(), dst_addrs.numpy(), sizes.numpy()
    for numbers in (sources, targets, nbytes):
        if (numbers % 8).any():
            i = (numbers % 8).argmax()
            raise ValueError(f"descriptor {i}: {numbers[i]} is no multiple of 8")
    chunks = int(nbytes.max(initial=0)) // 4096
    if chunks == 0:
        return
    launch(
        copy_kernel,
        (min(64, len(nbytes) * chunks),),
        src_addrs,
        dst_addrs,
        sizes,
        len(nbytes),
        chunks,
        WORDS=512,
        work=Work(by_address=ByAddress(sources, targets, nbytes)),
    )
