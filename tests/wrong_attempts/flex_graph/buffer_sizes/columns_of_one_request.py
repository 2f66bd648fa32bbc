"""Gives a group the pages of one request.

fails: test_a_step_of_as_many_tokens_as_there_may_be_fits
fails: test_a_step_of_as_many_requests_as_there_may_be_fits
fails: test_a_full_group_has_a_column_to_spare
says: at worst each token is of another request
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
        "kv_indices": (groups, pages + 1),
    }
