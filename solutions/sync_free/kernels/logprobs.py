"""Log-probabilities of a few tokens of each row, without those of the whole vocabulary.

The logits are read once, in blocks of the vocabulary; then the requested ids are looked up. For
each block three numbers are stored: its highest logit, the sum of exp(logit - highest), and how
many logits reach that of the row's first id. The log-softmax of any token follows from the first
two, the rank of the first id from the third.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch
from solutions.common.one_device import check_one_device

TILE = 8192
"""Number of logits that one program reads, all from one row if the vocabulary is large enough. At
this size even a few rows make enough programs for a GPU."""
ROWS, IDS = 16, 32
"""Sizes of a program of `token_logprobs_kernel`: it looks up IDS ids in each of ROWS rows."""


class LogprobsTensors(NamedTuple):
    """The log-probabilities of some tokens of each row, on the device: column 0 has the sampled
    token, the other columns have the requested ids."""

    logprob_token_ids: torch.Tensor
    """[num_rows, 1 + most ids of a row] int32: the ids of these tokens; 0 where a row requests
    fewer ids."""
    logprobs: torch.Tensor
    """[num_rows, 1 + most ids of a row] float32: their log-probabilities; -inf where a row requests
    fewer ids."""
    selected_token_ranks: torch.Tensor
    """[num_rows] int64: the sampled tokens' ranks, as `compute_token_ranks` counts them."""


@triton.jit(
    # One compiled kernel serves every step, with any number of ids.
    do_not_specialize=["num_rows", "ids_stride"],
    do_not_specialize_on_alignment=["ids"],
)
def vocabulary_block_kernel(
    highest,  # [num_rows, num_blocks] float32
    total,  # [num_rows, num_blocks] float32
    reaching,  # [num_rows, num_blocks] int32
    logits,  # [num_rows, vocab_size], each row contiguous
    ids,  # [num_rows, at least 1], each row contiguous; only the first column is read
    num_rows,
    vocab_size,
    num_blocks,
    logits_stride,
    ids_stride,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Reduces BLOCK logits of each of ROWS rows to three numbers: their highest, the sum of
    exp(logit - highest), and how many are at least the logit of the row's first id."""
    # The row's offset in the logits needs 64 bits.
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    row_exists = row < num_rows
    logits += row * logits_stride
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = row_exists[:, None] & (token < vocab_size)[None, :]
    values = tl.load(logits[:, None] + token[None, :], mask=exists, other=float("-inf"))
    values = values.to(tl.float32)
    # These two dependent loads come after the large one, so that they arrive while it does.
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
    """Writes the log-probabilities of IDS ids in each of ROWS rows, and the ranks of the rows'
    first ids."""
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
    # A row of nothing but -inf is no distribution: it gives NaN, as in log_softmax.
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


def score_tokens(
    logits: torch.Tensor, token_ids: torch.Tensor, counts: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns log-probabilities at `token_ids`, [num_rows, K] float32, and the ranks of column 0,
    [num_rows] int64, from one pass over the logits, [num_rows, vocab_size].

    `token_ids`: [num_rows, K] int32 or int64, K at least 1. `counts`: [num_rows] int32; in a row,
    ids from that column on are not read and give -inf. Raises ValueError for other shapes or
    dtypes.
    """
    check_logits(logits)
    if token_ids.dim() != 2 or len(token_ids) != len(logits) or not token_ids.shape[1]:
        raise ValueError(
            f"token ids of shape {list(token_ids.shape)} for logits of {list(logits.shape)}: "
            "there must be a row for each row of logits, and a column at least"
        )
    check_one_device({"logits": logits, "token_ids": token_ids})
    if token_ids.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"token_ids of {token_ids.dtype}: use int32 or int64")
    num_rows, vocab_size = logits.shape
    width = token_ids.shape[1]
    if token_ids.stride(1) != 1:
        token_ids = token_ids.contiguous()
    block = min(TILE, triton.next_power_of_2(vocab_size))
    num_blocks = triton.cdiv(vocab_size, block)
    highest = torch.empty(num_rows, num_blocks, dtype=torch.float32, device=logits.device)
    total, reaching = torch.empty_like(highest), torch.empty_like(highest, dtype=torch.int32)
    launch(
        vocabulary_block_kernel,
        (triton.cdiv(num_rows, TILE // block), num_blocks),
        highest,
        total,
        reaching,
        logits,
        token_ids,
        num_rows,
        vocab_size,
        num_blocks,
        logits.stride(0),
        token_ids.stride(0),
        ROWS=TILE // block,
        BLOCK=block,
        num_warps=8,
        work=lambda: Work(3.0 * logits.numel(), logits.nbytes, tensor_cores=False),
    )
    logprobs = torch.empty(num_rows, width, dtype=torch.float32, device=logits.device)
    ranks = torch.empty(num_rows, dtype=torch.int64, device=logits.device)
    launch(
        token_logprobs_kernel,
        (triton.cdiv(num_rows, ROWS), triton.cdiv(width, IDS)),
        logprobs,
        ranks,
        logits,
        token_ids,
        token_ids if counts is None else counts,
        highest,
        total,
        reaching,
        num_rows,
        width,
        vocab_size,
        num_blocks,
        logits.stride(0),
        token_ids.stride(0),
        HAS_COUNTS=counts is not None,
        ROWS=ROWS,
        IDS=IDS,
        BLOCKS=triton.next_power_of_2(num_blocks),
        num_warps=4,
        work=lambda: Work(bytes=2 * logprobs.nbytes + 3 * highest.nbytes, tensor_cores=False),
    )
    return logprobs, ranks


def compute_token_logprobs(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Returns the log-softmax of `logits`, [num_rows, vocab_size], at `token_ids`, [num_rows, K]
    integers on the device: [num_rows, K] float32.

    A logit of -inf gives -inf. So does an id outside of the vocabulary, for which nothing is read.
    A row that contains NaN or inf, or nothing but -inf, gives NaN, as log_softmax does.
    """
    return score_tokens(logits, token_ids)[0]


def compute_token_ranks(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Returns the rank of each row's token: how many logits of the row are at least that of the
    token. `token_ids` is [num_rows], and the result [num_rows] int64.

    So the most likely token has rank 1, and two tokens that share the first place both have rank 2.
    Upstream first counted only strictly greater logits, from 0, and later settled on this.
    """
    if token_ids.dim() != 1:
        raise ValueError(f"token_ids of shape {list(token_ids.shape)}: give one for each row")
    return score_tokens(logits, token_ids.unsqueeze(1))[1]


def check_logits(logits: torch.Tensor, sampled: torch.Tensor | None = None) -> None:
    """Raises ValueError unless `logits` are [num_rows, vocab_size] with contiguous rows, of
    float32, bfloat16 or float16, and `sampled`, if given, is [num_rows]."""
    if logits.dim() != 2 or not logits.shape[1]:
        raise ValueError(
            f"logits of shape {list(logits.shape)}: give [num_rows, vocab_size], "
            "with a token at least"
        )
    if logits.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"logits of {logits.dtype}: use float32, bfloat16 or float16")
    if logits.shape[1] > 1 and logits.stride(1) != 1:
        raise ValueError(f"logits of strides {logits.stride()}: each row must be contiguous")
    if sampled is None:
        return
    check_one_device({"logits": logits, "sampled": sampled})
    if sampled.shape != logits.shape[:1]:
        raise ValueError(
            f"sampled tokens of shape {list(sampled.shape)} for logits of {list(logits.shape)}: "
            "there must be one for each row"
        )
