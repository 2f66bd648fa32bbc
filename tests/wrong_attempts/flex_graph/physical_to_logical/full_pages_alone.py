"""Counts the pages that are full.

fails: test_a_page_that_has_begun_counts
says: with pages of 16, 17 tokens have 2
"""

import torch


def physical_to_logical_mapping(block_table, seq_lens, block_size, num_gpu_blocks):
    places = torch.arange(block_table.shape[1], dtype=torch.int32, device=block_table.device)
    counts = (places < seq_lens[:, None] // block_size) & (block_table > 0)
    mapping = block_table.new_full((len(block_table), num_gpu_blocks), -1)
    columns = torch.where(counts, block_table, 0).long()
    return mapping.scatter_reduce_(1, columns, torch.where(counts, places, -1), "amax")
