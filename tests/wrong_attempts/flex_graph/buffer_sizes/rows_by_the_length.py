"""Makes groups of the longest request, and not of the tokens of a step.

fails: test_a_step_of_as_many_tokens_as_there_may_be_fits
fails: test_nothing_is_larger_than_the_largest_step
says: for a step of 2 requests, each with 100 of its 100 tokens, which needs (13,)
says: A step may have more tokens than that, or less
"""


def buffer_shapes(limits):
    seqs, tokens, pages = limits.max_num_seqs, limits.max_num_batched_tokens, limits.pages_per_seq
    groups = -(-limits.max_model_len // limits.q_block)
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
