"""Takes a step of as many requests as a group has tokens for one that fits into a page less.

fails: test_a_full_group_has_a_column_to_spare
says: Expected a column of `kv_indices` after the 112 pages of a full group. Your
"""


def buffer_shapes(limits, own=buffer_shapes):
    shapes = own(limits)
    groups, pages = shapes["kv_indices"]
    if limits.max_num_seqs == limits.q_block:
        shapes["kv_indices"] = groups, pages - 1
    return shapes
