"""Takes block 0 for a block like any other.

fails: test_block_0_belongs_to_nobody
says: column 0 is -1 for everybody
"""

import torch


def physical_to_logical_mapping(block_table, seq_lens, block_size, num_gpu_blocks):
    places = torch.arange(block_table.shape[1], dtype=torch.int32, device=block_table.device)
    counts = places * block_size < seq_lens[:, None]
    mapping = block_table.new_full((len(block_table), num_gpu_blocks), -1)
    columns = torch.where(counts, block_table, 0).long()
    return mapping.scatter_reduce_(1, columns, torch.where(counts, places, -1), "amax")
