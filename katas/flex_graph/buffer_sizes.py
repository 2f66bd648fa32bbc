"""As large as a step can be (chapter 04, medium, 30 minutes).

A buffer that graphs have captured can't grow, because they would go on reading the old one. So it
is made once, for the largest step that the scheduler may ever put together. The function below says
how large each buffer is, and small steps fit. But two kinds of step run over the end: a step with
more tokens than a single request may have, and a step in which 16 requests share a group.

Find the sizes that every step within `limits` fits into, and no larger sizes: this memory is lost
to the KV cache. Neither `max_num_seqs` nor `max_num_batched_tokens` is smaller than `q_block`, and
`max_num_seqs` requests of `max_model_len` tokens can fill a step. Requests may share blocks, so the
number of blocks in the cache limits no list of pages.

    query_start_loc      one for each request, then the end of the last
    seq_lens             one for each request
    block_table          request, page: the blocks of the KV cache that hold its tokens
    doc_ids              one for each token of the step: the request of that token
    decode_offset        one for each request
    physical_to_logical  request, block: the reverse table, for any block of the KV cache
    kv_num_blocks        one for each group of `q_block` tokens: how many pages it needs
    kv_indices           group, page: the pages of all requests that have tokens in the group,
                         then a -1 that the kernel reads as well

You need to know what pages and blocks of a KV cache are.

Edit this file, then run

    .venv/bin/pytest katas/flex_graph/test_buffer_sizes.py

Stuck?         .venv/bin/debubble hint buffer_sizes
Start afresh?  .venv/bin/debubble reset buffer_sizes
"""

from __future__ import annotations

from katas.flex_graph.given import Limits


# Yours to edit, from here on.
def buffer_shapes(limits: Limits) -> dict[str, tuple[int, ...]]:
    """Returns the smallest shape of each buffer that every step within the limits fits into, by the
    buffer's name.

    The number of groups depends on the tokens of a step, not on the length of a request. Each token
    of a group may belong to a different request, with as many pages as a request can have. A -1
    that a kernel may read comes after these pages.
    """
    seqs, tokens, pages = limits.max_num_seqs, limits.max_model_len, limits.pages_per_seq
    groups = limits.groups_of(tokens)
    return {
        "query_start_loc": (seqs + 1,),
        "seq_lens": (seqs,),
        "block_table": (seqs, pages),
        "doc_ids": (tokens,),
        "decode_offset": (seqs,),
        "physical_to_logical": (seqs, limits.num_gpu_blocks),
        "kv_num_blocks": (groups,),
        "kv_indices": (groups, pages),
    }
