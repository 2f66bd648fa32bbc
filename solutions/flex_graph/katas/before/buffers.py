"""Sizes that follow from the longest request, as if a step were one request."""

from __future__ import annotations

from ...steps.limits import Limits


def buffer_shapes(limits: Limits) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each buffer, by its name, large enough only for a few short requests."""
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
