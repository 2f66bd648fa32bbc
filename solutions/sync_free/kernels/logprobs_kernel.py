"""The logits are read once, in blocks of the vocabulary; then the ids asked for are looked up.

What a block leaves behind is its highest logit and the sum of exp(logit - highest), from which the
log-softmax of any of its tokens follows, and how many logits reach that of the row's first id.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # Whatever a step asks for, it is the same compiled kernel.
    do_not_specialize=["num_rows", "ids_stride"],
    do_not_specialize_on_alignment=["ids"],
)
def vocabulary_block_kernel(
    highest,  # [num_rows, num_blocks] float32
    total,  # [num_rows, num_blocks] float32
    reaching,  # [num_rows, num_blocks] int32
    logits,  # [num_rows, vocab_size], each row contiguous
    ids,  # [num_rows, at least 1], each row contiguous; the first one alone is read
    num_rows,
    vocab_size,
    num_blocks,
    logits_stride,
    ids_stride,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program: BLOCK logits of ROWS rows."""
    # The row's offset in the logits needs 64 bits.
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row_exists = row < num_rows
    logits += row * logits_stride
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = row_exists[:, None] & (token < vocab_size)[None, :]
    values = tl.load(logits[:, None] + token[None, :], mask=exists, other=float("-inf"))
    values = values.to(tl.float32)
    # Behind the large load, so that these two, one after the other, arrive while it does.
    first_id = tl.load(ids + row * ids_stride, mask=row_exists, other=-1)
    is_token = (first_id >= 0) & (first_id < vocab_size)
    first_logit = tl.load(logits + first_id, mask=is_token, other=float("-inf")).to(tl.float32)

    block_highest = tl.max(values, 1)
    # A block of nothing but -inf sums to 0, and not to exp(-inf + inf).
    shift = tl.where(block_highest == float("-inf"), 0.0, block_highest)
    weights = tl.exp(values - shift[:, None])
    reaches = exists & (values >= first_logit[:, None])
    place = row * num_blocks + tl.program_id(1)
    tl.store(highest + place, block_highest, mask=row_exists)
    tl.store(total + place, tl.sum(weights, 1), mask=row_exists)
    tl.store(reaching + place, tl.sum(reaches.to(tl.int32), 1), mask=row_exists)


@triton.jit(
    do_not_specialize=["num_rows", "width", "ids_stride"],
    do_not_specialize_on_alignment=["ids", "counts"],
)
def token_logprobs_kernel(
    logprobs,  # [num_rows, width] float32
    ranks,  # [num_rows] int64
    logits,  # [num_rows, vocab_size], each row contiguous
    ids,  # [num_rows, width], each row contiguous
    counts,  # [num_rows] int32; not read without HAS_COUNTS
    highest,  # [num_rows, num_blocks] float32
    total,  # [num_rows, num_blocks] float32
    reaching,  # [num_rows, num_blocks] int32
    num_rows,
    width,
    vocab_size,
    num_blocks,
    logits_stride,
    ids_stride,
    HAS_COUNTS: tl.constexpr,
    ROWS: tl.constexpr,
    IDS: tl.constexpr,
    BLOCKS: tl.constexpr,  # a power of two, at least num_blocks
):
    """One program: IDS ids of ROWS rows."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row_exists = row < num_rows
    block = tl.arange(0, BLOCKS)
    place = (row * num_blocks)[:, None] + block[None, :]
    is_block = row_exists[:, None] & (block < num_blocks)[None, :]
    block_highest = tl.load(highest + place, mask=is_block, other=float("-inf"))
    block_total = tl.load(total + place, mask=is_block, other=0.0)
    row_highest = tl.max(block_highest, 1)
    shift = tl.where(row_highest == float("-inf"), 0.0, row_highest)
    row_total = tl.sum(block_total * tl.exp(block_highest - shift[:, None]), 1)
    # A row of nothing but -inf is no distribution: NaN, as log_softmax has it.
    log_total = tl.log(tl.where(row_total > 0, row_total, float("nan")))
    if tl.program_id(1) == 0:
        rank = tl.sum(tl.load(reaching + place, mask=is_block, other=0), 1)
        tl.store(ranks + row, rank.to(tl.int64), mask=row_exists)

    column = tl.program_id(1) * IDS + tl.arange(0, IDS)
    is_place = row_exists[:, None] & (column < width)[None, :]
    is_meant = is_place
    if HAS_COUNTS:
        count = tl.load(counts + row, mask=row_exists, other=0)
        is_meant &= column[None, :] < count[:, None]
    token = tl.load(ids + (row * ids_stride)[:, None] + column[None, :], mask=is_meant, other=-1)
    is_token = (token >= 0) & (token < vocab_size)
    logit = tl.load(logits + (row * logits_stride)[:, None] + token, mask=is_token, other=0.0)
    logprob = (logit.to(tl.float32) - shift[:, None]) - log_total[:, None]
    logprob = tl.where(is_token, logprob, float("-inf"))
    tl.store(logprobs + (row * width)[:, None] + column[None, :], logprob, mask=is_place)
