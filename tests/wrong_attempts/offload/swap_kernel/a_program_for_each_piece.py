"""Starts as many programs as there are pieces, each for a whole piece.

fails: test_a_long_piece_is_shared_out
says: one of them asks for too little
"""

import triton
import triton.language as tl

from debubble.accelerator import ByAddress, Work, launch


@triton.jit
def copy_kernel(src_addrs, dst_addrs, sizes, WORDS: tl.constexpr):
    piece = tl.program_id(0)
    source = tl.load(src_addrs + piece).to(tl.pointer_type(tl.int64))
    target = tl.load(dst_addrs + piece).to(tl.pointer_type(tl.int64))
    num_words = tl.load(sizes + piece) // 8
    for first in range(0, num_words, WORDS):
        word = first + tl.arange(0, WORDS)
        exists = word < num_words
        tl.store(target + word, tl.load(source + word, mask=exists), mask=exists)


def copy_pieces(src_addrs, dst_addrs, sizes):
    sources, targets, nbytes = src_addrs.numpy(), dst_addrs.numpy(), sizes.numpy()
    for numbers in (sources, targets, nbytes):
        if (numbers % 8).any():
            i = (numbers % 8).argmax()
            raise ValueError(f"descriptor {i}: {numbers[i]} is no multiple of 8")
    if len(nbytes) == 0:
        return
    launch(
        copy_kernel,
        (len(nbytes),),
        src_addrs,
        dst_addrs,
        sizes,
        WORDS=512,
        work=Work(by_address=ByAddress(sources, targets, nbytes)),
    )
