"""What an exchange carries beside the numbers of the ranks: which exchange it is for each of them,
and whether one has refused. So nobody takes another step's numbers for this one's.

Each rank puts a mark behind its column. Where all marks are the same, the numbers are summed as
they are. Else every rank gets the marks in place of numbers, as negative ones, which no rank ever
says: the host finds them where it reads, and nobody has waited to look.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
import torch.distributed as dist

MOST_EXCHANGES = 2**29
"""Exchanges are counted anew behind so many: a mark is an int32."""
GRACE_S = 1.0
"""Of a timeout: what is left to ask who is there, once an exchange has failed."""


def mark_of(exchange: int, refused: bool) -> int:
    """What a rank says of this exchange: its number, and whether the rank has refused."""
    return 2 * (exchange % MOST_EXCHANGES) + refused


def sum_in_step(
    state: torch.Tensor, process_group: dist.ProcessGroup, rank: int, exchange: int, refused: bool
) -> None:
    """Sums `state` [rows, ranks] int32 over all ranks, in place; or fills its columns with the
    ranks' marks, as -1 - mark, unless all of them are at this exchange and none has refused."""
    envelope = torch.zeros(len(state) + 1, state.shape[1], dtype=state.dtype, device=state.device)
    envelope[:-1].copy_(state)
    envelope[-1, rank].fill_(mark_of(exchange, refused))  # an argument of a kernel: no upload
    dist.all_reduce(envelope, group=process_group)
    marks = envelope[-1]
    in_step = (marks == mark_of(exchange, refused=False)).all()
    state.copy_(torch.where(in_step, envelope[:-1], -1 - marks))


def check_in_step(column_heads: Sequence[int]) -> None:
    """RuntimeError, with ranks and exchanges, where these are marks in place of numbers; one of
    each rank, on the host."""
    if min(column_heads, default=0) >= 0:
        return
    marks = [-1 - head for head in column_heads]
    exchanges = [mark // 2 for mark in marks]
    if len({*exchanges}) > 1:
        raise RuntimeError(
            f"the ranks are at exchanges {exchanges}, rank 0 first: one of them was stopped "
            "between its count and its exchange, or has left one out; start all of them anew"
        )
    refused = [rank for rank, mark in enumerate(marks) if mark % 2]
    raise RuntimeError(
        f"exchange {exchanges[0]}: {_named(refused)} refused what it was to say, and has raised "
        "why; no rank runs this step, and the next exchange is for all of them"
    )


def who_is_missing(
    process_group: dist.ProcessGroup, exchange: int, until: float
) -> list[int] | None:
    """The ranks that don't say, `until` this moment of time.monotonic(), that this exchange has
    failed for them too; None where nobody can be asked. Each rank asks once its own has failed."""
    rank, size = dist.get_rank(process_group), dist.get_world_size(process_group)
    try:
        store = process_group.get_group_store()
        store.set(_key(exchange, rank), "failed")
        missing = [*range(size)]
        while missing and time.monotonic() < until:
            time.sleep(0.02)
            missing = [each for each in missing if not store.check([_key(exchange, each)])]
    except RuntimeError:  # Who kept the store is gone.
        return None
    return missing


def unanswered(size: int, exchange: int, missing: list[int] | None, timeout_s: float | None) -> str:
    """The sentence for an exchange that failed, or was not answered in time; `timeout_s` is None at
    the start, where the process group's own timeout holds."""
    which = f"exchange {exchange} of the data-parallel ranks"
    if missing is None:
        who = "a rank, rank 0 it seems, has ended or hangs"
    elif missing:
        who = f"{_named(missing)} of {size} did not take part"
    else:
        who = "all ranks are there, but one came too late"
    if timeout_s is None:
        return f"{which}, at the start, failed: {who}; start all of them anew"
    return (
        f"{which} was not done within {timeout_s:g} s: {who}; start all of them anew, or give "
        "DataParallelGroup a longer timeout_s"
    )


def _key(exchange: int, rank: int) -> str:
    return f"debubble/exchange {exchange}/rank {rank}"


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
