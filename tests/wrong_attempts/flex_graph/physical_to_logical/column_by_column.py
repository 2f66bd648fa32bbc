"""Goes through the columns of the table, by a few kernels each.

fails: test_launches_do_not_grow
says: Expected at most 32 kernels. Your code made 200 kernels. At
"""


def physical_to_logical_mapping(block_table, seq_lens, block_size, num_gpu_blocks):
    is_page = is_page_of(block_table, seq_lens, block_size, num_gpu_blocks)
    block = torch.arange(num_gpu_blocks, device=block_table.device)
    mapping = block_table.new_full((len(block_table), num_gpu_blocks), -1)
    for place in range(block_table.shape[1]):
        own = is_page[:, place, None] & (block_table[:, place, None] == block)
        mapping.masked_fill_(own, place)
    return mapping
