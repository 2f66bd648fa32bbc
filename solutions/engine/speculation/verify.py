"""Verifies drafts: computes on the device how many were right, and so how many tokens each request
has. The next step continues there without the host."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

HEAD = 3
"""How many numbers an answer has before its tokens: how many tokens the request had, how many were
accepted, and how many were drafted."""


def verify(
    tokens: torch.Tensor,
    drafts: torch.Tensor,
    starts: torch.Tensor,
    ends: torch.Tensor,
    slots: torch.Tensor,
    num_known: torch.Tensor,
    last_tokens: torch.Tensor,
    answers: torch.Tensor,
) -> None:
    """Computes for each of R requests how many of its tokens are accepted, in one launch.

    tokens   [R * (1 + D)] int64: the token sampled after each token of the step
    drafts, starts, ends, slots   as in `propose`

    The first token is accepted, and each token after a draft that equals the token sampled before
    it, up to `ends`. Writes `num_known` and `last_tokens` [slots + 1], by slot, and `answers` [R,
    HEAD + 1 + D] int64: how many tokens the request had, how many were accepted, how many were
    drafted, and then the tokens, of which only the accepted ones count.
    """
    num_drafts = drafts.shape[1]
    num_rows = len(tokens) // (1 + num_drafts)
    launch(
        verify_kernel,
        (num_rows,),
        tokens,
        drafts,
        starts,
        ends,
        slots,
        num_known,
        last_tokens,
        answers,
        len(num_known) - 1,
        DRAFTS=num_drafts,
        LANES=triton.next_power_of_2(1 + num_drafts),
        HEAD=HEAD,
        work=lambda: Work(bytes=2 * tokens.nbytes, tensor_cores=False),
    )


@triton.jit
def verify_kernel(
    tokens,  # [rows * (1 + DRAFTS)] int64
    drafts,  # [rows, DRAFTS] int32
    starts,  # [rows] int32
    ends,  # [rows] int32
    slots,  # [rows] int32
    num_known,  # [num_slots + 1] int32
    last_tokens,  # [num_slots + 1] int64
    answers,  # [rows, HEAD + 1 + DRAFTS] int64
    num_slots,
    DRAFTS: tl.constexpr,
    LANES: tl.constexpr,  # a power of two, more than DRAFTS
    HEAD: tl.constexpr,
):
    """Verifies one request in each program."""
    row = tl.program_id(0)
    slot = tl.load(slots + row)
    exists = slot < num_slots
    start = tl.load(starts + row)
    end = tl.load(ends + row)
    lane = tl.arange(0, LANES)
    is_token = lane <= DRAFTS
    chosen = tl.load(tokens + row * (1 + DRAFTS) + lane, mask=is_token, other=0)
    is_drafted = lane < DRAFTS
    draft = tl.load(drafts + row * DRAFTS + lane, mask=is_drafted, other=-1)
    # Tokens are accepted up to the first wrong draft, or up to the last draft.
    is_wrong = draft.to(tl.int64) != chosen
    num_accepted = tl.min(tl.where(is_drafted & ~is_wrong, LANES, lane), 0)
    count = tl.minimum(tl.minimum(num_accepted, DRAFTS) + 1, tl.maximum(end - start, 0))
    count = tl.where(exists, count, 0)
    tl.store(num_known + slot, start + count, mask=exists)
    last = tl.sum(tl.where(lane == count - 1, chosen, 0), 0)
    tl.store(last_tokens + slot, last, mask=exists & (count > 0))
    answer = answers + row * (HEAD + 1 + DRAFTS)
    tl.store(answer, start.to(tl.int64))
    tl.store(answer + 1, count.to(tl.int64))
    tl.store(answer + 2, tl.sum((is_drafted & (draft >= 0)).to(tl.int64), 0))
    tl.store(answer + HEAD + lane, chosen, mask=is_token)
