"""The tables of a step, made on the device by three launches that a graph can hold."""

from __future__ import annotations

from debubble.accelerator import Work, launch

from ..buffers import PersistentBuffers
from ..mask import Mask
from ..steps.limits import Limits
from .group_pages_kernel import needed_pages_kernel, packed_pages_kernel
from .request_tables_kernel import request_tables_kernel

TILE = 1024
"""Pages, or tokens, that a program looks at together."""
NUM_WARPS = 8


def build_on_device(
    buffers: PersistentBuffers, limits: Limits, mask: Mask, num_tokens: int, max_seq_len: int
) -> None:
    """Fills `buffers` from its query_start_loc, seq_lens and block_table, in three launches,
    without an upload and without a wait (vLLM #36298). A graph that captured them can be replayed
    with other values in these three.

    Written are all of decode_offset; doc_ids of the first `num_tokens` tokens; what changed in
    physical_to_logical; and for the groups of so many tokens kv_num_blocks, 0 where there are only
    tokens that fill a captured size, and kv_indices up to the -1 that follows. The pages of a group
    stand there in the order of its requests, and of the pages within each.

    No request is looked at beyond `max_seq_len`, which a graph keeps as it was captured.
    """
    max_pages = limits.pages_of(max_seq_len)
    tables = (buffers.query_start_loc, buffers.seq_lens, buffers.block_table)
    of_tokens = (buffers.doc_ids, buffers.decode_offset)
    sizes = (limits.max_num_seqs, num_tokens, limits.pages_per_seq, max_pages)
    launch(
        request_tables_kernel,
        (limits.max_num_seqs + 1,),
        *tables,
        *of_tokens,
        buffers.physical_to_logical,
        buffers.page_users,
        buffers.known_pages,
        buffers.num_known_pages,
        *sizes,
        limits.num_gpu_blocks,
        PAGE=limits.block_size,
        TILE=TILE,
        num_warps=NUM_WARPS,
        work=lambda: _rows_work(limits, num_tokens, max_pages),
    )
    grid = (limits.groups_of(num_tokens), min(limits.q_block, limits.max_num_seqs))
    constants = {
        "GROUP": limits.q_block,
        "PAGE": limits.block_size,
        "CAUSAL": mask.causal,
        "WINDOW": mask.sliding_window or 0,
        "TILE": TILE,
        "num_warps": NUM_WARPS,
    }
    launch(
        needed_pages_kernel,
        grid,
        buffers.needs,
        buffers.num_needed,
        *tables,
        *of_tokens,
        buffers.physical_to_logical,
        buffers.page_users,
        *sizes,
        limits.num_gpu_blocks,
        **constants,
        work=lambda: _groups_work(limits, num_tokens, max_pages),
    )
    launch(
        packed_pages_kernel,
        grid,
        buffers.kv_num_blocks,
        buffers.kv_indices,
        buffers.needs,
        buffers.num_needed,
        *tables,
        *of_tokens,
        *sizes,
        **constants,
        work=lambda: _groups_work(limits, num_tokens, max_pages),
    )


def _rows_work(limits: Limits, num_tokens: int, max_pages: int) -> Work:
    """The entries of both tables, of as many requests as there can be, and all of doc_ids."""
    requests = min(limits.max_num_seqs, num_tokens)
    return Work(bytes=4 * (num_tokens + 2 * requests * max_pages), tensor_cores=False)


def _groups_work(limits: Limits, num_tokens: int, max_pages: int) -> Work:
    """Of each page of each request of a group, its entry, and either how many tables it is in or
    its place in the list; at least one request a group."""
    requests = max(min(limits.max_num_seqs, num_tokens), limits.groups_of(num_tokens))
    return Work(bytes=requests * max_pages * (4 + 4 + 1), tensor_cores=False)
