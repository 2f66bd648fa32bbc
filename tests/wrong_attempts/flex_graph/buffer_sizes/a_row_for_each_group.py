"""Gives each group a row of `physical_to_logical`, as if no two requests shared one.

fails: test_a_step_of_as_many_requests_as_there_may_be_fits
fails: test_each_request_may_have_the_last_block
says: Requests are not groups
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
        "physical_to_logical": (groups, limits.num_gpu_blocks),
        "kv_num_blocks": (groups,),
        "kv_indices": (groups, limits.q_block * pages + 1),
    }
