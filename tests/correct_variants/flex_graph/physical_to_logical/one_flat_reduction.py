"""Scatters into one flat table of zeros, with places counted from 1."""


def physical_to_logical_mapping(block_table, seq_lens, block_size, num_gpu_blocks):
    rows, columns = block_table.shape
    device = block_table.device
    place = torch.arange(1, columns + 1, dtype=torch.int32, device=device).expand(rows, columns)
    exists = (block_table > 0) & (block_table < num_gpu_blocks)
    counts = ((place - 1) * block_size < seq_lens[:, None]) & exists
    flat = torch.arange(rows, device=device)[:, None] * num_gpu_blocks
    flat = flat + torch.where(counts, block_table, 0)
    mapping = torch.zeros(rows * num_gpu_blocks, dtype=torch.int32, device=device)
    mapping.index_reduce_(0, flat.flatten(), (place * counts).int().flatten(), "amax")
    return mapping.view(rows, num_gpu_blocks) - 1
