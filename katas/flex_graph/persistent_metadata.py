"""Nothing left of a larger step (chapter 04, hard, 35 minutes).

A graph is captured with the largest step, and reads its buffers as far as that step went. The
function below copies a step's metadata into the buffers and returns slices of exactly its size.
Each step is right by itself. But the replay of a small step also reads what is after its slices,
and a larger step has left its numbers there.

Return the whole buffers, with the step at their start and only neutral values after it:

    query_start_loc           the end of the last request, for each missing request
    seq_lens, decode_offset   0
    doc_ids                   0: a token that pads the batch needs some request to look up
    kv_num_blocks             0 for groups without tokens
    kv_indices                -1 after the last page of every group

Do it without a wait. Only the device knows how many tokens the step has.

You need to know what a captured graph reads of a step, and the function of `copy_to_persistent`.

Edit this file, then run

    pytest katas/flex_graph/test_persistent_metadata.py

Stuck?         debubble hint persistent_metadata
Start afresh?  debubble reset persistent_metadata
"""

from __future__ import annotations

from typing import NamedTuple

import torch


# Yours to edit, from here on.
def persistent_metadata(
    buffers: MetadataTensors,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    pages: torch.Tensor,
) -> MetadataTensors:
    """Writes the metadata of a step to `buffers`, and returns them (vLLM #36298).

    `query_start_loc` [R + 1] and `seq_lens` [R] describe the step's R requests. `pages` has a row
    for each group of its tokens: the pages that the group needs, then -1. All three are int32 on
    the device, and none shares memory with the buffers.
    """
    query_lens = query_start_loc.diff()
    request = torch.arange(len(seq_lens), dtype=torch.int32, device=seq_lens.device)
    step = MetadataTensors(
        query_start_loc,
        seq_lens,
        decode_offset=seq_lens - query_lens,
        doc_ids=request.repeat_interleave(query_lens),
        kv_num_blocks=(pages >= 0).sum(1, dtype=torch.int32),
        kv_indices=pages,
    )
    slices = [copy_to_persistent(dst, src) for dst, src in zip(buffers, step, strict=True)]
    return MetadataTensors(*slices)


# region Given: what the code above uses. You may change it, and need not.


class MetadataTensors(NamedTuple):
    """The tensors of a step that attention reads, int32 on the device. Buffers have the sizes of
    the largest step: S requests, T tokens, and G groups of tokens with up to W pages each."""

    query_start_loc: torch.Tensor
    """[S + 1]: where each request's tokens start, then the end of the last one's."""
    seq_lens: torch.Tensor
    """[S]: tokens of each request, with those that were computed before."""
    decode_offset: torch.Tensor
    """[S]: how many tokens of each request were computed before."""
    doc_ids: torch.Tensor
    """[T]: the request of each token."""
    kv_num_blocks: torch.Tensor
    """[G]: how many pages each group of tokens needs."""
    kv_indices: torch.Tensor
    """[G, W + 1]: the pages that each group needs, then -1."""


def _described(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"


def copy_to_persistent(dst: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    """Copies `src` to the start of `dst`, and returns that part of `dst`, in the shape of `src`
    (vLLM #36298). The part has the strides of `dst` in every step, so rows stay where a graph
    captured them. If `src` is this part of `dst` already, nothing is copied.

    Raises ValueError if `src` is larger in some dimension, of another dtype, or on another device.
    """
    if dst.dim() != src.dim() or dst.dtype != src.dtype or dst.device != src.device:
        raise ValueError(
            f"{_described(src)} can't be copied to {_described(dst)}: make them alike in all but "
            "their sizes"
        )
    if any(size > room for size, room in zip(src.shape, dst.shape, strict=True)):
        raise ValueError(
            f"a tensor of {list(src.shape)} for persistent memory of {list(dst.shape)}: schedule "
            "less, or make the limits larger"
        )
    part = dst[tuple(map(slice, src.shape))]
    if (src.data_ptr(), src.stride()) == (part.data_ptr(), part.stride()):
        return src
    return part.copy_(src)


# endregion
