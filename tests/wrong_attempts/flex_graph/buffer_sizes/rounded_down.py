"""Counts the groups that are full.

fails: test_a_step_of_as_many_tokens_as_there_may_be_fits
says: made it (12,)
says: the last group may have fewer
"""


def buffer_shapes(limits):
    seqs, tokens, pages = limits.max_num_seqs, limits.max_num_batched_tokens, limits.pages_per_seq
    groups = tokens // limits.q_block
    return {
        "query_start_loc": (seqs + 1,),
        "seq_lens": (seqs,),
        "block_table": (seqs, pages),
        "doc_ids": (tokens,),
        "decode_offset": (seqs,),
        "physical_to_logical": (seqs, limits.num_gpu_blocks),
        "kv_num_blocks": (groups,),
        "kv_indices": (groups, limits.q_block * pages + 1),
    }
