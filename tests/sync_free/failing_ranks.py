"""Ranks of which one refuses, is interrupted, dies or hangs, as processes. `run_cases` starts many
cases side by side, and returns what the other ranks were told and when.

This is not a test module: run it as `python -m tests.sync_free.failing_ranks FOLDER CASE...`.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch.distributed as dist

import debubble
from solutions.sync_free.model import data_parallel_group
from solutions.sync_free.model.data_parallel_group import DataParallelGroup
from solutions.sync_free.model.ranks import agreement_of
from solutions.sync_free.sites.data_parallel import _run_ar

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 4.0
"""The timeout in seconds after which a missing rank is reported; all other failures are reported
sooner."""
EXCHANGES = 6
FIRST = data_parallel_group.STEPS_IN_FLIGHT
"""The number of the first exchange in which a rank fails: those before it belong to the start."""
WAYS = ("refuses", "is interrupted", "dies", "hangs")
SIDE_BY_SIDE = 6


class Case(NamedTuple):
    size: int
    way: str
    rank: int
    """The number of the rank that fails."""
    exchange: int
    """The number of the exchange in which it fails, FIRST or later."""

    @property
    def id(self) -> str:
        return f"{self.size}-{self.way.replace(' ', '_')}-{self.rank}-{self.exchange}"

    @classmethod
    def of(cls, text: str) -> "Case":
        size, way, rank, exchange = text.split("-")
        return cls(int(size), way.replace("_", " "), int(rank), int(exchange))


CASES = [
    Case(size, way, rank, exchange)
    for size in (2, 4)
    for way in WAYS
    for rank in range(size)
    for exchange in range(FIRST, FIRST + EXCHANGES - 1)
]


def run_cases(folder: Path, cases: Sequence[Case]) -> dict[Case, list[dict]]:
    """Runs all cases, and returns for each case what each of its ranks saw; {} for a rank that
    ended."""
    environment = os.environ | {"DEBUBBLE_DEVICE": "sim", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", __name__, str(folder), *(case.id for case in cases)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=280)
    return {case: [_seen(folder / case.id, rank) for rank in range(case.size)] for case in cases}


def _seen(folder: Path, rank: int) -> dict:
    path = folder / f"rank_{rank}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def main(folder: Path, cases: list[Case]) -> None:
    debubble.accelerator()
    _run_ar(False, 1, 1, 0, DataParallelGroup.alone()).read()  # compiles, once for all of them
    context = multiprocessing.get_context("fork")
    running: list[tuple[Case, list]] = []
    while cases or running:
        while cases and len(running) < SIDE_BY_SIDE:
            case = cases.pop()
            (folder / case.id).mkdir()
            ranks = [
                context.Process(target=run_rank, args=(case, r, folder)) for r in range(case.size)
            ]
            for rank in ranks:
                rank.start()
            running.append((case, ranks))
        time.sleep(0.05)
        for case, ranks in list(running):
            others = [rank for number, rank in enumerate(ranks) if number != case.rank]
            if not any(rank.is_alive() for rank in others):
                if case.way == "hangs":
                    ranks[case.rank].kill()
                ranks[case.rank].join()
                running.remove((case, ranks))


def run_rank(case: Case, rank: int, folder: Path) -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / case.id / 'rendezvous'}",
        rank=rank,
        world_size=case.size,
        timeout=timedelta(seconds=60),
    )
    group = DataParallelGroup(dist.group.WORLD, case.size, timeout_s=TIMEOUT_S)
    seen: dict = {"heard": [], "seconds": 0.0}
    for exchange in range(FIRST, FIRST + EXCHANGES):
        started = time.monotonic()
        own = rank == case.rank and exchange == case.exchange
        try:
            heard = ask(group, rank, exchange, case.way if own else "")
        except (ValueError, RuntimeError, KeyboardInterrupt) as error:
            heard = f"{type(error).__name__}: {error}"
        seen["heard"].append(heard)
        seen["seconds"] = max(seen["seconds"], time.monotonic() - started)
    (folder / case.id / f"rank_{rank}.json").write_text(json.dumps(seen))
    os._exit(0)  # torch.distributed would still wait for others.


def ask(group: DataParallelGroup, rank: int, exchange: int, way: str) -> list[int]:
    """Runs one exchange, and returns the padded tokens of each rank. If `way` is one of WAYS, this
    rank fails in that way instead."""
    number = 100 * exchange + rank
    if way == "dies":
        os._exit(1)
    if way == "hangs":
        time.sleep(10 * TIMEOUT_S)
    if way == "is interrupted":
        state = group.own_column(number, number, False, 0)
        with mock.patch.object(data_parallel_group, "launch", side_effect=KeyboardInterrupt("now")):
            group.all_reduce(state)
    if way == "refuses":
        return _run_ar(False, -1, number, 0, group).read()[1].tolist()
    state = _run_ar(False, number, number, 0, group).read()
    agreement_of(state)
    return state[1].tolist()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Case.of(text) for text in sys.argv[2:]])
