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

    .venv/bin/pytest katas/flex_graph/test_persistent_metadata.py

Stuck?         .venv/bin/debubble hint persistent_metadata
Start afresh?  .venv/bin/debubble reset persistent_metadata
"""

from __future__ import annotations

import torch

from katas.flex_graph.given import MetadataTensors, copy_to_persistent


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
