"""Writes -1 for entries that don't count, to the column that they name.

Whether that comes before or after another entry of the same block is not defined on a GPU.

fails: test_nothing_counts_behind_the_length
on: sim
says: those too that it writes -1 for
"""

import torch


def physical_to_logical_mapping(block_table, seq_lens, block_size, num_gpu_blocks):
    places = torch.arange(block_table.shape[1], dtype=torch.int32, device=block_table.device)
    counts = (places * block_size < seq_lens[:, None]) & (block_table > 0)
    mapping = block_table.new_full((len(block_table), num_gpu_blocks), -1)
    return mapping.scatter_(1, block_table.long(), torch.where(counts, places, -1))
