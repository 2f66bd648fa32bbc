"""Gives `physical_to_logical` a column for each block that all requests together can hold.

fails: test_each_request_may_have_the_last_block
says: and block 299, the last ones
says: however few of them the requests can fill
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
        "physical_to_logical": (seqs, seqs * pages),
        "kv_num_blocks": (groups,),
        "kv_indices": (groups, limits.q_block * pages + 1),
    }
