"""The chunks of all pieces as one list: the swap kernel without what makes it fast on top."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    do_not_specialize=["num_pieces", "chunks_per_piece"],
    do_not_specialize_on_alignment=["src_addrs", "dst_addrs", "sizes"],
)
def copy_pieces_kernel(
    src_addrs,  # [num_pieces] int64, pinned, as are the next two
    dst_addrs,  # [num_pieces] int64
    sizes,  # [num_pieces] int64, bytes: multiples of 8
    num_pieces,
    chunks_per_piece,  # of the longest piece
    WORDS: tl.constexpr,  # of 8 bytes, in a chunk
):
    """One program: every num_programs-th chunk. There are fewer than 2 ** 31 of them."""
    lane = tl.arange(0, WORDS)
    for item in range(tl.program_id(0), num_pieces * chunks_per_piece, tl.num_programs(0)):
        piece = item // chunks_per_piece
        first = (item - piece * chunks_per_piece).to(tl.int64) * WORDS
        source = tl.load(src_addrs + piece).to(tl.pointer_type(tl.int64)) + first + lane
        target = tl.load(dst_addrs + piece).to(tl.pointer_type(tl.int64)) + first + lane
        exists = lane < tl.load(sizes + piece) // 8 - first
        tl.store(target, tl.load(source, mask=exists), mask=exists)
