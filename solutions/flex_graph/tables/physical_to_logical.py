"""From a block of the KV cache back to its place in a request, in a few torch ops."""

from __future__ import annotations

import torch


def physical_to_logical_mapping(
    block_table: torch.Tensor, seq_lens: torch.Tensor, block_size: int, num_gpu_blocks: int
) -> torch.Tensor:
    """[R, num_gpu_blocks] int32: which of its pages a block is to each request; -1 for blocks that
    are none of its own, as block 0 is to everybody (vLLM #36298).

    `block_table` [R, C] and `seq_lens` [R], both int32 on one device. No more entries count than
    the length needs, and of those only blocks that there are. The last of several entries that
    name one block wins.
    """
    places = torch.arange(block_table.shape[1], dtype=torch.int32, device=block_table.device)
    is_page = is_page_of(block_table, seq_lens, block_size, num_gpu_blocks)
    mapping = block_table.new_full((len(block_table), num_gpu_blocks), -1)
    # What is no page says -1 of block 0.
    blocks = torch.where(is_page, block_table, 0).long()
    return mapping.scatter_reduce_(1, blocks, torch.where(is_page, places, -1), "amax")


def is_page_of(
    block_table: torch.Tensor, seq_lens: torch.Tensor, block_size: int, num_gpu_blocks: int
) -> torch.Tensor:
    """[R, C] bool: the entries that are needed for the length, and name a block that there is."""
    columns = block_table.shape[1]
    first_tokens = torch.arange(0, columns * block_size, block_size, device=block_table.device)
    is_needed = first_tokens < seq_lens[:, None]
    return is_needed & (block_table > 0) & (block_table < num_gpu_blocks)
