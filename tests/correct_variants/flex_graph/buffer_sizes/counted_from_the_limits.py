"""Counts pages and groups itself, with rounded-up divisions of the limits."""


def buffer_shapes(limits):
    pages = (limits.max_model_len - 1) // limits.block_size + 1
    groups = (limits.max_num_batched_tokens - 1) // limits.q_block + 1
    requests, blocks = limits.max_num_seqs, limits.num_gpu_blocks
    return dict(
        query_start_loc=(1 + requests,),
        seq_lens=(requests,),
        decode_offset=(requests,),
        block_table=(requests, pages),
        doc_ids=(limits.max_num_batched_tokens,),
        physical_to_logical=(requests, blocks),
        kv_num_blocks=(groups,),
        kv_indices=(groups, 1 + pages * limits.q_block),
    )
