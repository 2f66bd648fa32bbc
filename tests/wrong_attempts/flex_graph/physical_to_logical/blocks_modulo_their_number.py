"""Brings blocks that don't exist into range instead of leaving them out.

fails: test_steps_one_after_another
says: Expected what physical_to_logical_mapping of blocks that do not exist returns to be [[-1,
"""


def physical_to_logical_mapping(block_table, seq_lens, block_size, num_gpu_blocks):
    places = torch.arange(block_table.shape[1], dtype=torch.int32, device=block_table.device)
    is_page = (places * block_size < seq_lens[:, None]) & (block_table > 0)
    mapping = block_table.new_full((len(block_table), num_gpu_blocks), -1)
    blocks = torch.where(is_page, block_table, 0).clamp(max=num_gpu_blocks - 1).long()
    return mapping.scatter_reduce_(1, blocks, torch.where(is_page, places, -1), "amax")
