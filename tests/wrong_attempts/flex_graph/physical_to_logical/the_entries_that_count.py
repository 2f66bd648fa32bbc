"""Picks the entries that count by a mask, whose number the host has to know.

fails: test_nobody_waits_and_nothing_is_sent
fails: test_a_replay_maps_the_tables_of_its_step
may fail: test_of_a_block_that_stands_twice_the_last_place_counts
says: `nonzero`, and an index that is a mask
"""

import torch


def physical_to_logical_mapping(block_table, seq_lens, block_size, num_gpu_blocks):
    places = torch.arange(block_table.shape[1], dtype=torch.int32, device=block_table.device)
    counts = (places * block_size < seq_lens[:, None]) & (block_table > 0)
    mapping = block_table.new_full((len(block_table), num_gpu_blocks), -1)
    request, place = counts.nonzero(as_tuple=True)
    mapping[request, block_table[counts].long()] = places[place]
    return mapping
