"""The copy of one piece, for a host that knows it: all of its words at once."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["source", "target", "num_words"])
def copy_piece_kernel(
    source,  # an address
    target,  # an address
    num_words,  # of 8 bytes, at most WORDS
    WORDS: tl.constexpr,  # a power of two
):
    """One program: the whole piece."""
    word = tl.arange(0, WORDS)
    exists = word < num_words
    words = tl.load(source.to(tl.pointer_type(tl.int64)) + word, mask=exists)
    tl.store(target.to(tl.pointer_type(tl.int64)) + word, words, mask=exists)
