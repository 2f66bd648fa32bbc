"""Compares each entry with each block, and takes the largest place."""


def physical_to_logical_mapping(block_table, seq_lens, block_size, num_gpu_blocks):
    place = torch.arange(block_table.shape[1], dtype=torch.int32, device=block_table.device)
    counts = (place * block_size < seq_lens[:, None]) & (block_table != 0)
    block = torch.arange(num_gpu_blocks, dtype=torch.int32, device=block_table.device)
    hits = (block_table[:, :, None] == block) & counts[:, :, None]
    none = place.new_full((len(block_table), 1, num_gpu_blocks), -1)
    return torch.cat([none, torch.where(hits, place[None, :, None], -1)], 1).amax(1)
