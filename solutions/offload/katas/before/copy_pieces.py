"""A launch for each piece, and all of its words at once."""

from __future__ import annotations

import torch
import triton

from debubble.accelerator import ByAddress, Work, launch

from .copy_piece_kernel import copy_piece_kernel


def copy_pieces(src_addrs: torch.Tensor, dst_addrs: torch.Tensor, sizes: torch.Tensor) -> None:
    """Whatever the sizes are, and wherever the pieces lie."""
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
