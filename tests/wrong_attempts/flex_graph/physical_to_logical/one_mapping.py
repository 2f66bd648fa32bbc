"""Keeps one mapping for each shape, and writes to it in every step.

fails: test_results_stay_as_they_are
says: to have memory of its own
"""

MAPPINGS = {}


def physical_to_logical_mapping(
    block_table, seq_lens, block_size, num_gpu_blocks, own=physical_to_logical_mapping
):
    mapping = own(block_table, seq_lens, block_size, num_gpu_blocks)
    return MAPPINGS.setdefault(mapping.shape, torch.empty_like(mapping)).copy_(mapping)
