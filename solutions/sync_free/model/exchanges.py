"""The mark that a rank sends with its numbers: which exchange it is at, and whether it has refused.

Each rank adds its mark below its column, so no rank takes another step's numbers for those of this
step. If all marks are equal and none is a refusal, the numbers are summed as they are. Else every
rank gets the marks in place of numbers, as negative numbers, which no rank ever sends. The host
finds them where it reads the result anyway, so the check costs no wait.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
import torch.distributed as dist

MOST_EXCHANGES = 2**29
"""Number of exchanges after which their count restarts at 0, since a mark is an int32."""
GRACE_S = 1.0
"""Seconds of a timeout reserved for finding out which ranks are missing, once an exchange has
failed."""


def mark_of(exchange: int, refused: bool) -> int:
    """Returns the mark that a rank sends: the exchange's number, and whether the rank has refused,
    as one integer."""
    return 2 * (exchange % MOST_EXCHANGES) + refused


def sum_in_step(
    state: torch.Tensor, process_group: dist.ProcessGroup, rank: int, exchange: int, refused: bool
) -> None:
    """Sums `state` [rows, ranks] int32 over all ranks, in place, if all ranks are at this exchange
    and none has refused. Else fills each rank's column with -1 - its mark."""
    envelope = torch.zeros(len(state) + 1, state.shape[1], dtype=state.dtype, device=state.device)
    envelope[:-1].copy_(state)
    envelope[-1, rank].fill_(mark_of(exchange, refused))  # an argument of a kernel: no upload
    dist.all_reduce(envelope, group=process_group)
    marks = envelope[-1]
    in_step = (marks == mark_of(exchange, refused=False)).all()
    state.copy_(torch.where(in_step, envelope[:-1], -1 - marks))


def check_in_step(column_heads: Sequence[int]) -> None:
    """Raises RuntimeError, with ranks and exchanges, if the ranks' marks came instead of their
    numbers. `column_heads` has one number of each rank, on the host."""
    if min(column_heads, default=0) >= 0:
        return
    marks = [-1 - head for head in column_heads]
    exchanges = [mark // 2 for mark in marks]
    if len({*exchanges}) > 1:
        raise RuntimeError(
            f"the ranks are at exchanges {exchanges}, rank 0 first: one rank was stopped "
            "between its count and its exchange, or has left one out; restart all of them"
        )
    refused = [rank for rank, mark in enumerate(marks) if mark % 2]
    raise RuntimeError(
        f"exchange {exchanges[0]}: {_named(refused)} refused what it was to say, and has raised "
        "why; no rank runs this step, and the next exchange is for all of them"
    )


def who_is_missing(
    process_group: dist.ProcessGroup, exchange: int, until: float
) -> list[int] | None:
    """Returns the ranks that by `until`, a time of time.monotonic(), haven't reported that this
    exchange failed for them too; None if the store can't be reached. Each rank calls this once its
    own exchange has failed."""
    rank, size = dist.get_rank(process_group), dist.get_world_size(process_group)
    try:
        store = process_group.get_group_store()
        store.set(_key(exchange, rank), "failed")
        missing = [*range(size)]
        while missing and time.monotonic() < until:
            time.sleep(0.02)
            missing = [each for each in missing if not store.check([_key(exchange, each)])]
    except RuntimeError:  # The process that kept the store is gone.
        return None
    return missing


def unanswered(size: int, exchange: int, missing: list[int] | None, timeout_s: float | None) -> str:
    """Returns the message for an exchange that failed, or was not answered in time. `timeout_s` is
    None at the start, where the process group's own timeout applies."""
    which = f"exchange {exchange} of the data-parallel ranks"
    if missing is None:
        who = "a rank, rank 0 it seems, has ended or hangs"
    elif missing:
        who = f"{_named(missing)} of {size} did not take part"
    else:
        who = "all ranks are there, but one came too late"
    if timeout_s is None:
        return f"{which}, at the start, failed: {who}; restart all of them"
    return (
        f"{which} was not done within {timeout_s:g} s: {who}; restart all of them, or give "
        "DataParallelGroup a longer timeout_s"
    )


def _key(exchange: int, rank: int) -> str:
    return f"debubble/exchange {exchange}/rank {rank}"


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
