"""A kernel that goes by addresses (chapter 05, hard, 60 minutes).

If the driver costs the host time for every small piece, a kernel can copy all pieces in one launch:
it reads pinned host memory over the link, as it reads the device's own memory. The function below
copies pieces with a kernel that gets one piece: two addresses, which it takes for pointers to words
of 8 bytes. But it is launched once for each piece, with one program, which holds the whole piece at
once. If a size is no multiple of 8, it leaves out the rest and reports nothing.

Launch the kernel once. Let it read the descriptors from the three pinned tensors, which are
contiguous: each piece's source, target and size. Cut pieces into chunks of `bytes_per_chunk` bytes,
share all chunks out among several programs, and mask the last chunk of a piece. One compiled kernel
has to serve lists of any number of pieces, of any length. Refuse pieces that words of 8 bytes can't
copy, before anything is copied: on a GPU a misaligned address costs the CUDA context. If there is
nothing to copy, launch nothing.

Sim can't see where an address leads. So `work` tells sim which pieces the kernel copies; a GPU does
not need that.

You need to know Triton: pointers, masks, and programs that share work out.

Edit this file, then run

    .venv/bin/pytest katas/offload/test_swap_kernel.py

Stuck?         .venv/bin/debubble hint swap_kernel
Start afresh?  .venv/bin/debubble reset swap_kernel
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import ByAddress, Work, launch
from katas.offload.given import LARGEST_CHUNK


# Yours to edit, from here on.
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
    """Copies sizes[i] bytes from address src_addrs[i] to address dst_addrs[i], by one launch on the
    current stream (vLLM #42212).

    All three are int64 [N] in pinned host memory, where the kernel reads them when it runs; N and
    sizes may be 0. Sources and targets lie in pinned host memory or on the device. A program moves
    `bytes_per_chunk` bytes at a time: a power of two, at least 8.

    Raises ValueError, before anything is copied, for a size or an address that is no multiple of 8.
    Its text names the first one: "descriptor 5: ...".
    """
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
