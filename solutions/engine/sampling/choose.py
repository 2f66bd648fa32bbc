"""Samples a token for each row of logits in one launch: penalties, temperature, top-k, top-p, min-p
and a random draw. A row that needs fewer of these does less work."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from .wishes import WIDTH

TILE = 8192
"""Number of logits that a program processes at once, from one row or from several short rows."""


class CountTables(NamedTuple):
    """The device's record of the requests, int32, with a row for each slot. The last row belongs to
    no request."""

    token_ids: torch.Tensor
    """[slots + 1, max_model_len]: the tokens of each slot's request, its prompt first."""
    num_tokens: torch.Tensor
    """[slots + 1]: how many of these tokens the host has uploaded."""
    prompt_bin_mask: torch.Tensor
    """[slots + 1, ceil(vocab_size / 32)]: bit t % 32 of word t // 32 is 1 if token t is in the
    prompt."""
    output_bin_counts: torch.Tensor
    """[slots + 1, vocab_size]: how often each token is in the answer."""

    @classmethod
    def zeros(cls, slots: int, max_len: int, vocab_size: int, device: torch.device) -> CountTables:
        sizes = ((max_len,), (), (-(-vocab_size // 32),), (vocab_size,))
        return cls(
            *(torch.zeros((slots + 1, *size), dtype=torch.int32, device=device) for size in sizes)
        )


def choose_tokens(
    logits: torch.Tensor,
    wishes: torch.Tensor,
    slots: torch.Tensor,
    tables: CountTables,
    last_tokens: torch.Tensor,
    counted_in: int,
) -> torch.Tensor:
    """Returns [R] int64: the token of each row of `logits` [R, vocab_size]. Also writes it by slot
    to `last_tokens` [slots + 1] int64.

    wishes      [R or more, WIDTH] int32, from `wishes_of`
    slots       [R or more] int32: each row's request in the tables
    counted_in  the current round, FIRST or SECOND: counts the tokens of rows whose COUNTED_IN it is

    Tokens are ordered by their penalised logits. The first `top_k` are kept; of these the smallest
    set whose probability, at the temperature, sums to `top_p`; of these the tokens with at least
    `min_p` of the most likely token's probability. Ties with the last kept token are kept too. The
    random draw hashes seed, position and id, so it does not depend on the other requests of the
    step. At temperature 0 the token is the most likely one, and the smallest id of a tie.
    """
    num_rows, vocab_size = logits.shape
    tokens = torch.empty(num_rows, dtype=torch.int64, device=logits.device)
    if not num_rows:
        return tokens
    block = min(triton.next_power_of_2(vocab_size), TILE)
    rows = TILE // block
    launch(
        choose_kernel,
        (triton.cdiv(num_rows, rows),),
        tokens,
        last_tokens,
        logits,
        wishes,
        slots,
        tables.token_ids,
        tables.prompt_bin_mask,
        tables.output_bin_counts,
        num_rows,
        logits.stride(0),
        tables.token_ids.shape[1],
        VOCAB_SIZE=vocab_size,
        WIDTH=WIDTH,
        ROUND=counted_in,
        ROWS=rows,
        BLOCK=block,
        num_warps=8,
        work=lambda: Work(2.0 * logits.numel(), logits.nbytes, tensor_cores=False),
    )
    return tokens


@triton.jit
def penalised(
    logits,  # [ROWS, 1] pointers to the rows' first logits
    token,  # [1, BLOCK]
    mask_words,  # [ROWS, 1] pointers, as the next one
    counts,
    presence,  # [ROWS, 1] float32, as the next two
    frequency,
    repetition,
    has_penalties,  # [ROWS, 1]
    exists,  # [ROWS, 1]
    VOCAB_SIZE: tl.constexpr,
):
    """Returns [ROWS, BLOCK] float32: the logits with the requests' penalties; -inf past the end of
    the vocabulary."""
    exists = exists & (token < VOCAB_SIZE)
    values = tl.load(logits + token, mask=exists, other=float("-inf")).to(tl.float32)
    if tl.max(has_penalties.to(tl.int32)) > 0:
        exists = exists & has_penalties
        said = tl.load(counts + token, mask=exists, other=0)
        word = tl.load(mask_words + token // 32, mask=exists, other=0)
        was_there = (said > 0) | (((word >> (token % 32)) & 1) > 0)
        repeated = tl.where(values > 0, values / repetition, values * repetition)
        values = tl.where(was_there, repeated, values)
        values -= said.to(tl.float32) * frequency
        values -= tl.where(said > 0, presence, 0.0)
    return values


@triton.jit
def in_order(values):
    """Returns int64 numbers that are in the same order as the float32 `values`."""
    bits = values.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)


@triton.jit(
    # One compiled kernel serves any number of rows.
    do_not_specialize=["num_rows"],
    do_not_specialize_on_alignment=["wishes", "slots"],
)
def choose_kernel(
    tokens,  # [num_rows] int64
    last_tokens,  # [slots + 1] int64
    logits,  # [num_rows, VOCAB_SIZE], a row's contiguous
    wishes,  # [num_rows, WIDTH] int32
    slots,  # [num_rows] int32
    token_ids,  # [slots + 1, max_len] int32
    prompt_bin_mask,  # [slots + 1, words] int32
    output_bin_counts,  # [slots + 1, VOCAB_SIZE] int32
    num_rows,
    logits_stride,
    max_len,
    VOCAB_SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    ROUND: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,  # a power of two
):
    """Samples ROWS rows in each program. Offsets into a row of `wishes` are the numbers of
    Column."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    exists = row < num_rows
    slot = tl.load(slots + row, mask=exists, other=0).to(tl.int64)
    wishes += row * WIDTH
    logits += row * logits_stride
    WORDS: tl.constexpr = (VOCAB_SIZE + 31) // 32
    mask_words = prompt_bin_mask + slot * WORDS
    counts = output_bin_counts + slot * VOCAB_SIZE
    temperature = tl.load(wishes, mask=exists, other=0).to(tl.float32, bitcast=True)
    presence = tl.load(wishes + 7, mask=exists, other=0).to(tl.float32, bitcast=True)
    frequency = tl.load(wishes + 8, mask=exists, other=0).to(tl.float32, bitcast=True)
    repetition = tl.load(wishes + 9, mask=exists, other=0).to(tl.float32, bitcast=True)
    counted_in = tl.load(wishes + 10, mask=exists, other=0)
    has_penalties = counted_in > 0
    repetition = tl.where(has_penalties, repetition, 1.0)
    lane = tl.arange(0, BLOCK)[None, :]

    best = tl.full([ROWS, BLOCK], float("-inf"), tl.float32)
    best_token = tl.full([ROWS, BLOCK], VOCAB_SIZE, tl.int32)
    for start in range(0, VOCAB_SIZE, BLOCK):
        values = penalised(
            logits, start + lane, mask_words, counts,
            presence, frequency, repetition, has_penalties, exists, VOCAB_SIZE,
        )  # fmt: skip
        is_better = values > best
        best = tl.where(is_better, values, best)
        best_token = tl.where(is_better, start + lane, best_token)
    highest = tl.max(best, 1)[:, None]
    chosen = tl.min(tl.where(best == highest, best_token, VOCAB_SIZE), 1)[:, None]
    # A row that does not exist has -inf here, and -inf - -inf would be NaN.
    highest = tl.maximum(highest, -3.4028234663852886e38)

    is_drawn = exists & (temperature > 0)
    if tl.max(is_drawn.to(tl.int32)) > 0:
        temperature = tl.where(is_drawn, temperature, 1.0)
        # Values of at least `least`, in the order of the floats, may be chosen: first all finite
        # ones.
        least = tl.full([ROWS, 1], -2139095040, tl.int64)
        above = in_order(highest) + 1
        top_k = tl.load(wishes + 1, mask=is_drawn, other=0)
        # Invariant: top_k values or more are at or above `least`, and fewer are at or above `end`.
        end = tl.where((top_k > 0) & (top_k < VOCAB_SIZE), above, least + 1)
        while tl.max(end - least) > 1:
            middle = least + (end - least) // 2
            count = tl.full([ROWS], 0, tl.int32)
            for start in range(0, VOCAB_SIZE, BLOCK):
                values = penalised(
                    logits, start + lane, mask_words, counts,
                    presence, frequency, repetition, has_penalties, exists, VOCAB_SIZE,
                )  # fmt: skip
                count += tl.sum((in_order(values) >= middle).to(tl.int32), 1)
            enough = count[:, None] >= top_k
            searches = end - least > 1
            least = tl.where(searches & enough, middle, least)
            end = tl.where(searches & ~enough, middle, end)
            end = tl.where(searches & (count[:, None] == top_k), least + 1, end)

        top_p = tl.load(wishes + 2, mask=is_drawn, other=0).to(tl.float32, bitcast=True)
        end = tl.where(is_drawn & (top_p < 1), above, least + 1)
        # The first pass sums the weight of all values that are left.
        wanted = tl.full([ROWS, 1], -1.0, tl.float32)
        middle = least
        while tl.max(end - least) > 1:
            weight = tl.full([ROWS], 0.0, tl.float32)
            for start in range(0, VOCAB_SIZE, BLOCK):
                values = penalised(
                    logits, start + lane, mask_words, counts,
                    presence, frequency, repetition, has_penalties, exists, VOCAB_SIZE,
                )  # fmt: skip
                weights = tl.exp((values - highest) / temperature)
                weight += tl.sum(tl.where(in_order(values) >= middle, weights, 0.0), 1)
            weighs = weight[:, None]
            searches = (end - least > 1) & (wanted >= 0)
            least = tl.where(searches & (weighs >= wanted), middle, least)
            end = tl.where(searches & (weighs < wanted), middle, end)
            wanted = tl.where(wanted < 0, weighs * top_p, wanted)
            middle = least + (end - least) // 2

        min_p = tl.load(wishes + 3, mask=is_drawn, other=0).to(tl.float32, bitcast=True)
        lowest = tl.where(
            min_p > 0, highest + tl.log(tl.maximum(min_p, 1e-30)) * temperature, float("-inf")
        )
        low = tl.load(wishes + 4, mask=is_drawn, other=0).to(tl.uint32, bitcast=True)
        high = tl.load(wishes + 5, mask=is_drawn, other=0).to(tl.uint32, bitcast=True)
        seed = (high.to(tl.uint64) << 32) | low.to(tl.uint64)
        position = tl.load(wishes + 6, mask=is_drawn, other=0)
        # Exponential clocks, one a token, each with its own rate: a token's clock rings first with
        # the token's probability.
        first = tl.full([ROWS, BLOCK], float("-inf"), tl.float32)
        first_token = tl.full([ROWS, BLOCK], VOCAB_SIZE, tl.int32)
        zeros = tl.full([ROWS, BLOCK], 0, tl.int32)
        for start in range(0, VOCAB_SIZE, BLOCK):
            token = start + lane
            values = penalised(
                logits, token, mask_words, counts,
                presence, frequency, repetition, has_penalties, exists, VOCAB_SIZE,
            )  # fmt: skip
            bits, _, _, _ = tl.philox(
                seed + zeros.to(tl.uint64), token + zeros, position + zeros, zeros, zeros
            )
            chance = (
                bits.to(tl.uint32, bitcast=True).to(tl.float32) + 0.5
            ) * 2.3283064365386963e-10
            # Rounding may give 1, whose logarithm is 0: its clock would ring at once.
            clock = -tl.log(tl.minimum(chance, 0.99999994))
            key = (values - highest) / temperature - tl.log(clock)
            may_be = (in_order(values) >= least) & (values >= lowest)
            key = tl.where(may_be, key, float("-inf"))
            is_first = key > first
            first = tl.where(is_first, key, first)
            first_token = tl.where(is_first, token, first_token)
        soonest = tl.max(first, 1)[:, None]
        drawn = tl.min(tl.where(first == soonest, first_token, VOCAB_SIZE), 1)[:, None]
        chosen = tl.where(is_drawn, drawn, chosen)

    # If every logit is -inf, or one is NaN, no token is the best: take token 0.
    chosen = tl.where(chosen < VOCAB_SIZE, chosen, 0)
    tl.store(tokens + row, chosen.to(tl.int64), mask=exists)
    tl.store(last_tokens + slot, chosen.to(tl.int64), mask=exists)
    counts_it = exists & (counted_in == ROUND)
    said = tl.load(counts + chosen, mask=counts_it, other=0)
    tl.store(counts + chosen, said + 1, mask=counts_it)
    # No answer begins at position 0: a row without a position is not stored.
    place = tl.load(wishes + 6, mask=exists, other=0)
    is_kept = exists & (place > 0) & (place < max_len)
    tl.store(token_ids + slot * max_len + place, chosen, mask=is_kept)
