"""Copying pieces from addresses to addresses by a kernel: the launch by itself."""

from __future__ import annotations

import torch

from debubble.accelerator import ByAddress, Work, launch

from .copy_pieces_kernel import copy_pieces_kernel

WORD = 8
"""Bytes that the kernel moves as one number."""
WORDS_PER_CHUNK = 512
NUM_PROGRAMS = 64


def copy_pieces(src_addrs: torch.Tensor, dst_addrs: torch.Tensor, sizes: torch.Tensor) -> None:
    """Copies sizes[i] bytes from address src_addrs[i] to address dst_addrs[i], by one launch on the
    current stream (vLLM #42212).

    Three contiguous int64 tensors [N] in pinned host memory, where the kernel reads them when it
    runs; N and sizes may be 0. Sources and targets lie in pinned host memory or on the device.

    ValueError, before anything is copied, for a size or an address that is no multiple of 8. Its
    text names the first one: "descriptor 5: ...".
    """
    sources, targets, nbytes = src_addrs.numpy(), dst_addrs.numpy(), sizes.numpy()
    for what, numbers in (("size", nbytes), ("source", sources), ("target", targets)):
        is_odd = numbers % WORD != 0
        if is_odd.any():
            i = int(is_odd.argmax())
            raise ValueError(f"descriptor {i}: {what} {numbers[i]} is no multiple of {WORD}")
    chunks_per_piece = -(-int(nbytes.max(initial=0)) // (WORD * WORDS_PER_CHUNK))
    num_chunks = len(nbytes) * chunks_per_piece
    if num_chunks == 0:
        return
    launch(
        copy_pieces_kernel,
        (min(NUM_PROGRAMS, num_chunks),),
        src_addrs,
        dst_addrs,
        sizes,
        len(nbytes),
        chunks_per_piece,
        WORDS=WORDS_PER_CHUNK,
        work=Work(by_address=ByAddress(sources, targets, nbytes)),
    )
