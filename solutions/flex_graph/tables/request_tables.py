"""The first launch of a build: the tables that a mask reads, a row per request, updated where they
changed.

A program owns the row of one request, and no other program writes to it. It remembers in
known_pages what it wrote to physical_to_logical, so that the next step can undo just that: the row
is as long as the KV cache, and a request has few of its blocks. A request with the same pages, or
with one page more, keeps its entries; nearly every request in nearly every step is of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping

import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from ..buffers import PersistentBuffers
from ..steps.limits import Limits


def fill_request_tables(
    buffers: PersistentBuffers,
    limits: Limits,
    num_tokens: int,
    max_pages: int,
    tiling: Mapping[str, int],
) -> None:
    """Fills decode_offset, the first `num_tokens` of doc_ids, and whatever changed in
    physical_to_logical in `buffers`, by one launch. Pages of a request from number `max_pages` on
    are not read."""
    launch(
        request_tables_kernel,
        (limits.max_num_seqs + 1,),
        buffers.query_start_loc,
        buffers.seq_lens,
        buffers.block_table,
        buffers.doc_ids,
        buffers.decode_offset,
        buffers.physical_to_logical,
        buffers.page_users,
        buffers.known_pages,
        buffers.num_known_pages,
        limits.max_num_seqs,
        num_tokens,
        limits.pages_per_seq,
        max_pages,
        limits.num_gpu_blocks,
        PAGE=limits.block_size,
        **tiling,
        work=lambda: _work(limits, num_tokens, max_pages),
    )


def _work(limits: Limits, num_tokens: int, max_pages: int) -> Work:
    """Returns the bytes that the launch moves, for sim's cost model: the entries of both tables for
    the most requests that the step can have, and all of doc_ids."""
    requests = min(limits.max_num_seqs, num_tokens)
    return Work(bytes=4 * (num_tokens + 2 * requests * max_pages), tensor_cores=False)


@triton.jit(
    # One compiled kernel serves all of these values, which differ from step to step.
    do_not_specialize=["num_tokens", "max_pages"],
)
def request_tables_kernel(
    query_start_loc,  # [num_seqs + 1] int32, as are all tensors below
    seq_lens,  # [num_seqs]
    block_table,  # [num_seqs, pages_per_seq]
    doc_ids,  # [num_tokens] or more
    decode_offset,  # [num_seqs]
    physical_to_logical,  # [num_seqs, num_blocks]
    page_users,  # [num_blocks]
    known_pages,  # [num_seqs, pages_per_seq]
    num_known_pages,  # [num_seqs]
    num_seqs,
    num_tokens,
    pages_per_seq,
    max_pages,  # of a request in this step
    num_blocks,
    PAGE: tl.constexpr,
    TILE: tl.constexpr,
):
    """Updates the tables' row of one request. The last program handles the tokens that pad the
    batch to a captured size."""
    row = tl.program_id(0)
    tile = tl.arange(0, TILE)
    first_token = tl.load(query_start_loc + row)
    if row == num_seqs:
        for first in range(first_token, num_tokens, TILE):
            tl.store(doc_ids + first + tile, 0, mask=first + tile < num_tokens)
        return
    end_token = tl.load(query_start_loc + row + 1)
    seq_len = tl.load(seq_lens + row)
    tl.store(decode_offset + row, seq_len - (end_token - first_token))
    for first in range(first_token, tl.minimum(end_token, num_tokens), TILE):
        tl.store(doc_ids + first + tile, row, mask=first + tile < tl.minimum(end_token, num_tokens))

    # int64, since the rows of large tables have more entries than int32 can count.
    block_table += row.to(tl.int64) * pages_per_seq
    known_pages += row.to(tl.int64) * pages_per_seq
    physical_to_logical += row.to(tl.int64) * num_blocks
    num_pages = tl.minimum(tl.cdiv(seq_len, PAGE), max_pages)
    num_known = tl.load(num_known_pages + row)
    differs = tl.full([TILE], 0, tl.int32)
    for first in range(0, num_known, TILE):
        place = first + tile
        known = tl.load(known_pages + place, mask=place < num_known, other=0)
        block = tl.load(block_table + place, mask=place < tl.minimum(num_known, num_pages), other=0)
        # Pages that the request has lost count as block 0 here, which is never cleared.
        differs |= (known != block).to(tl.int32)
    num_kept = num_known
    if tl.max(differs) > 0:
        num_kept = 0
        for first in range(0, num_known, TILE):
            known = tl.load(known_pages + first + tile, mask=first + tile < num_known, other=0)
            is_page = (known > 0) & (known < num_blocks)
            tl.store(physical_to_logical + known, -1, mask=is_page)
            tl.atomic_add(page_users + known, -1, mask=is_page, sem="relaxed")
    # Below, a thread sets what other threads have cleared above.
    tl.debug_barrier()
    for first in range(num_kept, num_pages, TILE):
        place = first + tile
        block = tl.load(block_table + place, mask=place < num_pages, other=0)
        is_page = (block > 0) & (block < num_blocks)
        # If several entries point to one block, the last one wins, in whatever order threads come.
        tl.atomic_max(physical_to_logical + block, place, mask=is_page, sem="relaxed")
        tl.atomic_add(page_users + block, 1, mask=is_page, sem="relaxed")
        tl.store(known_pages + place, block, mask=place < num_pages)
    tl.store(num_known_pages + row, num_pages)
