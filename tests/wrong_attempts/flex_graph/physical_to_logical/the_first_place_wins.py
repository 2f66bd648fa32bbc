"""Keeps the smallest of several places.

fails: test_of_a_block_that_stands_twice_the_last_place_counts
says: A table may name a block twice, and then its last place counts
"""

import torch


def physical_to_logical_mapping(block_table, seq_lens, block_size, num_gpu_blocks):
    places = torch.arange(block_table.shape[1], dtype=torch.int32, device=block_table.device)
    counts = (places * block_size < seq_lens[:, None]) & (block_table > 0)
    nowhere = block_table.shape[1]
    mapping = block_table.new_full((len(block_table), num_gpu_blocks), nowhere)
    columns = torch.where(counts, block_table, 0).long()
    mapping.scatter_reduce_(1, columns, torch.where(counts, places, nowhere), "amin")
    return mapping.masked_fill_(mapping == nowhere, -1)
