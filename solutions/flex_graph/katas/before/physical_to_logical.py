"""The inverse of the block tables by a loop over their entries, which the host has to read
first."""

from __future__ import annotations

import torch


def physical_to_logical_mapping(
    block_table: torch.Tensor, seq_lens: torch.Tensor, block_size: int, num_gpu_blocks: int
) -> torch.Tensor:
    """Returns [R, num_gpu_blocks] int32: the index of each block among the request's pages, or -1,
    filled in on the host one page at a time."""
    mapping = torch.full((len(block_table), num_gpu_blocks), -1, dtype=torch.int32)
    tables = zip(block_table.tolist(), seq_lens.tolist(), strict=True)
    for request, (blocks, length) in enumerate(tables):
        num_pages = -(-length // block_size)
        for place, block in enumerate(blocks[:num_pages]):
            if 0 < block < num_gpu_blocks:
                mapping[request, block] = place
    return mapping.to(block_table.device)
