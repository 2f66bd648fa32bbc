"""A launch for each piece, with all of its words at once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import ByAddress, Work, launch

from ...swap_blocks import LARGEST_CHUNK


@triton.jit(do_not_specialize=["source", "target", "num_words"])
def copy_piece_kernel(
    source,  # an address
    target,  # an address
    num_words,  # of 8 bytes, at most WORDS
    WORDS: tl.constexpr,  # a power of two
):
    """Copies the whole piece in one program."""
    word = tl.arange(0, WORDS)
    exists = word < num_words
    words = tl.load(source.to(tl.pointer_type(tl.int64)) + word, mask=exists)
    tl.store(target.to(tl.pointer_type(tl.int64)) + word, words, mask=exists)


def copy_pieces(
    src_addrs: torch.Tensor,
    dst_addrs: torch.Tensor,
    sizes: torch.Tensor,
    bytes_per_chunk: int = LARGEST_CHUNK,
) -> None:
    """Copies sizes[i] bytes from address src_addrs[i] to dst_addrs[i], with a launch for each
    piece."""
    sources, targets, nbytes = src_addrs.numpy(), dst_addrs.numpy(), sizes.numpy()
    for i in range(len(nbytes)):
        one, num_words = slice(i, i + 1), int(nbytes[i]) // 8
        launch(
            copy_piece_kernel,
            (1,),
            int(sources[i]),
            int(targets[i]),
            num_words,
            WORDS=triton.next_power_of_2(max(num_words, 1)),
            work=Work(by_address=ByAddress(sources[one], targets[one], nbytes[one])),
        )
