"""The tables of a step, made on the device by three launches that a graph can hold."""

from __future__ import annotations

from ..buffers import PersistentBuffers
from ..mask import Mask
from ..steps.limits import Limits
from .group_pages import list_group_pages
from .request_tables import fill_request_tables

TILE = 1024
"""Number of pages, or of tokens, that a program handles at a time."""
NUM_WARPS = 8


def build_on_device(
    buffers: PersistentBuffers, limits: Limits, mask: Mask, num_tokens: int, max_seq_len: int
) -> None:
    """Fills the tables in `buffers` from its query_start_loc, seq_lens and block_table, in three
    launches, with no upload and no wait (vLLM #36298). A graph that captured them can be replayed
    with other values in these three.

    It writes all of decode_offset, doc_ids of the first `num_tokens` tokens, and whatever changed
    in physical_to_logical. For the groups of `num_tokens` tokens it writes kv_num_blocks, 0 for
    groups of padding only, and kv_indices up to the first -1. The pages of a group are in the order
    of its requests, and of the pages within each request.

    With `buffers.lists_pages` False it leaves kv_num_blocks and kv_indices as they are, in one
    launch.

    Pages of a request beyond `max_seq_len` are not read; a graph keeps the limit that it captured.
    """
    max_pages = limits.pages_of(max_seq_len)
    tiling = {"TILE": TILE, "num_warps": NUM_WARPS}
    fill_request_tables(buffers, limits, num_tokens, max_pages, tiling)
    if buffers.lists_pages:
        list_group_pages(buffers, limits, mask, num_tokens, max_pages, tiling)
