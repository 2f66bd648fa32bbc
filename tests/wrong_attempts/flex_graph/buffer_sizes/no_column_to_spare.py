"""Ends a row of the pages with the last page that there can be.

fails: test_a_full_group_has_a_column_to_spare
says: behind the 112 pages of a full group
says: The kernel reads the entry behind the last page as well
"""


def buffer_shapes(limits):
    seqs, tokens, pages = limits.max_num_seqs, limits.max_num_batched_tokens, limits.pages_per_seq
    groups = -(-tokens // limits.q_block)
    return {
        "query_start_loc": (seqs + 1,),
        "seq_lens": (seqs,),
        "block_table": (seqs, pages),
        "doc_ids": (tokens,),
        "decode_offset": (seqs,),
        "physical_to_logical": (seqs, limits.num_gpu_blocks),
        "kv_num_blocks": (groups,),
        "kv_indices": (groups, limits.q_block * pages),
    }
