"""The way back from a block (chapter 04, medium, 25 minutes).

The KV cache is cut into blocks, and `block_table[request, place]` names the block that holds a
request's tokens from `place * block_size` on. FlexAttention goes through the cache by block, so its
mask needs the reverse: does this block belong to the request, and which part of the request does it
hold? The function below makes that table, and works. But it waits for the block tables, reads them
on the host, and goes through them entry by entry: no graph can capture it.

Make the table on the device, with PyTorch's own operators. Three things have to stay as they are.
Entries after a request's length are garbage, and do not count. Block 0 is the null block, and
belongs to no request. If a table names a block twice, the last place counts.

A kernel writes in no defined order. If it writes different values to one place, sim reports a race,
even at a place that is never read.

You need to know `scatter_reduce_`, and what a block table says.

Edit this file, then run

    .venv/bin/pytest katas/flex_graph/test_physical_to_logical.py

Stuck?         .venv/bin/debubble hint physical_to_logical
Start afresh?  .venv/bin/debubble reset physical_to_logical
"""

from __future__ import annotations

import torch


# Yours to edit, from here on.
def physical_to_logical_mapping(
    block_table: torch.Tensor, seq_lens: torch.Tensor, block_size: int, num_gpu_blocks: int
) -> torch.Tensor:
    """Returns [R, num_gpu_blocks] int32: the index of each block among the request's pages; -1 for
    blocks that are not the request's own, and always for block 0 (vLLM #36298).

    `block_table` [R, C] and `seq_lens` [R] are int32 on one device. Entries beyond the request's
    length are ignored, and so are entries that are no existing block. If several entries name one
    block, the last of them counts.
    """
    mapping = torch.full((len(block_table), num_gpu_blocks), -1, dtype=torch.int32)
    tables = zip(block_table.tolist(), seq_lens.tolist(), strict=True)
    for request, (blocks, length) in enumerate(tables):
        num_pages = -(-length // block_size)
        for place, block in enumerate(blocks[:num_pages]):
            if 0 < block < num_gpu_blocks:
                mapping[request, block] = place
    return mapping.to(block_table.device)
