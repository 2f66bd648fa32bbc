"""Makes drafts, and the step that verifies them. Both are made on the device, since the host does
not know yet how many tokens the last step gave."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from ..sampling.wishes import WIDTH

FROM_DEVICE = -1
"""Stands for the length of a request if the host doesn't know it yet."""
NO_DRAFT = -1
"""Stands for the id of a draft where no token is drafted."""
LONGEST = 4
"""The longest n-gram that is compared: longer ones would seldom find a different match."""
TILE = 1024
"""Number of positions that a program compares at once."""


def propose(
    token_ids: torch.Tensor,
    num_known: torch.Tensor,
    lengths: torch.Tensor,
    ends: torch.Tensor,
    slots: torch.Tensor,
    block_table: torch.Tensor,
    wishes: torch.Tensor,
    step: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    starts: torch.Tensor,
    drafts: torch.Tensor,
    row_wishes: torch.Tensor,
    row_slots: torch.Tensor,
    num_rows: int,
    page: int,
) -> None:
    """Prepares R = num_rows requests with 1 + D tokens each, in one launch. All tensors are int32.

    token_ids    [slots + 1, max_len], the tokens of each slot's request, its prompt first
    num_known    [slots + 1], how many tokens that are
    lengths      [R], the same if the host knows it, else FROM_DEVICE
    ends         [R], how many tokens there may be after this step
    slots        [R], the requests' slots; the last slot belongs to no request
    block_table  [R, pages], blocks of `page` tokens; 0 is none
    wishes       [R, WIDTH], from `wishes_of`

    It writes:

    step         token_ids, positions and slot_mapping [R * (1 + D)], and seq_lens [R]
    starts       [R], the lengths
    drafts       [R, D], NO_DRAFT where there is none
    row_wishes   [R * (1 + D), WIDTH], those of the requests, token by token
    row_slots    [R * (1 + D)], likewise

    Looks for an earlier occurrence of the request's last n-gram, with n as large as possible up to
    LONGEST, and takes the latest such place. The drafts are the tokens that follow there; where
    they reach the end of the request, they repeat from that place.
    """
    num_drafts = drafts.shape[1]
    max_len = token_ids.shape[1]
    launch(
        propose_kernel,
        (num_rows,),
        token_ids,
        num_known,
        lengths,
        ends,
        slots,
        block_table,
        wishes,
        *step,
        starts,
        drafts,
        row_wishes,
        row_slots,
        len(token_ids) - 1,
        max_len,
        block_table.stride(0),
        DRAFTS=num_drafts,
        LANES=triton.next_power_of_2(1 + num_drafts),
        PAGE=page,
        WIDTH=WIDTH,
        COLUMNS=triton.next_power_of_2(WIDTH),
        LONGEST=LONGEST,
        TILE=min(TILE, triton.next_power_of_2(max_len)),
        work=lambda: Work(bytes=4 * num_rows * max_len, tensor_cores=False),
    )


@triton.jit
def propose_kernel(
    token_ids,  # [num_slots + 1, max_len] int32, as all others
    num_known,  # [num_slots + 1]
    lengths,  # [rows]
    ends,  # [rows]
    slots,  # [rows]
    block_table,  # [rows, pages]
    wishes,  # [rows, WIDTH]
    step_ids,  # [rows * (1 + DRAFTS)]
    positions,  # likewise
    slot_mapping,  # likewise
    seq_lens,  # [rows]
    starts,  # [rows]
    drafts,  # [rows, DRAFTS]
    row_wishes,  # [rows * (1 + DRAFTS), WIDTH]
    row_slots,  # [rows * (1 + DRAFTS)]
    num_slots,
    max_len,
    pages,
    DRAFTS: tl.constexpr,
    LANES: tl.constexpr,  # a power of two, more than DRAFTS
    PAGE: tl.constexpr,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,  # a power of two, at least WIDTH
    LONGEST: tl.constexpr,
    TILE: tl.constexpr,
):
    """Prepares one request in each program. Offsets into a row of `wishes` are those of Column."""
    row = tl.program_id(0)
    slot = tl.load(slots + row)
    exists = slot < num_slots
    length = tl.load(lengths + row)
    length = tl.where(length < 0, tl.load(num_known + slot), length)
    length = tl.where(exists, length, 0)
    end = tl.load(ends + row)
    said = token_ids + slot.to(tl.int64) * max_len

    # The best place has the most equal tokens before it; of several such places, it is the latest.
    best = tl.full([TILE], 0, tl.int32)
    for first in range(0, length, TILE):
        place = first + tl.arange(0, TILE)
        goes_on = place < length
        alike = tl.full([TILE], 0, tl.int32)
        for back in tl.static_range(1, LONGEST + 1):
            wanted = tl.load(said + length - back, mask=length >= back, other=-1)
            found = tl.load(said + place - back, mask=goes_on & (place >= back), other=-2)
            goes_on = goes_on & (found == wanted)
            alike += goes_on.to(tl.int32)
        best = tl.maximum(best, tl.where(alike > 0, alike * max_len + place, 0))
    found = tl.max(best, 0)
    place = found % max_len
    period = tl.maximum(length - place, 1)

    lane = tl.arange(0, LANES)
    is_token = lane <= DRAFTS
    is_draft = is_token & (lane > 0) & (found > 0) & (length + lane < end)
    behind = place + tl.maximum(lane - 1, 0) % period
    draft = tl.load(said + behind, mask=is_draft, other=-1)
    last = tl.load(said + length - 1, mask=length > 0, other=0)
    token = row * (1 + DRAFTS) + lane
    position = tl.maximum(length - 1, 0) + lane
    page = position // PAGE
    has_page = is_token & exists & (page < pages)
    block = tl.load(block_table + row * pages + page, mask=has_page, other=0)
    tl.store(step_ids + token, tl.where(lane == 0, last, tl.maximum(draft, 0)), mask=is_token)
    tl.store(positions + token, tl.where(has_page, position, 0), mask=is_token)
    place_in_cache = tl.where(block > 0, block * PAGE + position % PAGE, -1)
    tl.store(slot_mapping + token, place_in_cache, mask=is_token)
    tl.store(seq_lens + row, tl.where(exists, length + DRAFTS, 0))
    tl.store(starts + row, length)
    tl.store(drafts + row * DRAFTS + lane - 1, draft, mask=is_token & (lane > 0))

    column = tl.arange(0, COLUMNS)
    of_row = tl.load(wishes + row * WIDTH + column, mask=column < WIDTH, other=0)[None, :]
    # Each token is sampled with its own position. Tokens sampled after a draft are not counted.
    of_token = tl.where(column[None, :] == 6, length + lane[:, None], of_row)
    of_token = tl.where((column[None, :] == 10) & (lane[:, None] > 0), 0, of_token)
    of_token = tl.where(exists, of_token, 0)
    target = row_wishes + token[:, None] * WIDTH + column[None, :]
    tl.store(target, of_token, mask=is_token[:, None] & (column < WIDTH)[None, :])
    tl.store(row_slots + token, slot + tl.zeros([LANES], tl.int32), mask=is_token)
