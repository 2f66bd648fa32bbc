"""The work of each rank of a data-parallel group, and what it sees, in a process of its own.

This is not a test module: run it as `python -m tests.sync_free.data_parallel_ranks SIZE FOLDER`.
"""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist

import debubble
from solutions.sync_free.model import data_parallel_group
from solutions.sync_free.model.data_parallel_group import DataParallelGroup
from solutions.sync_free.sites.data_parallel import _run_ar
from tests.common.ranks import BACKENDS, MAX_TOKENS, TIMEOUT_S, main
from tests.gate import SHORT_MS, closed_gate

STEPS = 64


def numbers_of(rank: int, step: int) -> dict[str, int | bool]:
    """Returns the numbers that a rank sends in a step, by the arguments' names: no two ranks or
    steps are alike, and all rows differ."""
    number = 100 * rank + step
    return {
        "should_ubatch": (rank + step) % 3 > 0,
        "orig_num_tokens": number,
        "padded_num_tokens": number + 7 * step,
        "cudagraph_mode": (rank + 2 * step) % 3,
    }


def run_rank(rank: int, size: int, folder: Path) -> None:
    if os.environ["DEBUBBLE_DEVICE"] == "cuda":
        torch.cuda.set_device(rank)  # The accelerator is made for the current device.
    accelerator = debubble.accelerator()
    dist.init_process_group(
        BACKENDS[accelerator.name],
        init_method=f"file://{folder / 'rendezvous'}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=TIMEOUT_S / 2),
    )
    seen = {"disagreements": disagreements(rank, size)}
    group = DataParallelGroup(dist.group.WORLD, size, MAX_TOKENS)
    seen["overlapped"] = overlapped_steps(accelerator, group)
    seen["behind a busy device"] = read_behind_a_busy_device(accelerator, group)
    if size == 4:
        pairs = [dist.new_group(pair) for pair in ([0, 1], [2, 3])]
        pair = DataParallelGroup(pairs[rank // 2], 2)
        seen["pair"] = _run_ar(**numbers_of(rank, 1), group=pair).read().tolist()
    (folder / f"rank_{rank}.json").write_text(json.dumps(seen))
    dist.barrier()
    dist.destroy_process_group()


def disagreements(rank: int, size: int) -> dict[str, str]:
    """Starts groups in which the last rank has a different size, limit or number of rows. Returns
    {what differs: this rank's error}."""
    odd = rank == size - 1
    rows = [*data_parallel_group.Sent, "one more"] if odd else data_parallel_group.Sent
    told = {}
    for what, own_size, limit, own_rows in (
        ("size", size + odd, MAX_TOKENS, data_parallel_group.Sent),
        ("limit", size, MAX_TOKENS + odd, data_parallel_group.Sent),
        ("rows", size, MAX_TOKENS, rows),
    ):
        with mock.patch.object(data_parallel_group, "Sent", own_rows):
            try:
                DataParallelGroup(dist.group.WORLD, own_size, limit)
            except ValueError as error:
                told[what] = str(error)
    return told


def overlapped_steps(accelerator, group: DataParallelGroup) -> dict:
    """Runs STEPS exchanges, and reads none before the last is queued. Returns all states read, the
    counts and the hazards."""
    with debubble.record(accelerator) as timeline, debubble.no_host_syncs():
        accelerator.sleep(20.0)
        pending = [_run_ar(**numbers_of(group.rank, step), group=group) for step in range(STEPS)]
    return {
        "states": [state.read().tolist() for state in pending],
        "counts": timeline.counts(),
        "hazards": list(map(str, timeline.hazards)),
    }


def read_behind_a_busy_device(accelerator, group: DataParallelGroup) -> dict:
    """Runs one exchange while the compute stream is blocked. Returns its state, and if the stream
    was still blocked after the call, and after the read."""
    with closed_gate(accelerator, SHORT_MS):  # The first exchange behind such a load costs more.
        _run_ar(**numbers_of(group.rank, 0), group=group).read()
    accelerator.synchronize()
    _run_ar(**numbers_of(group.rank, 0), group=group).read()  # All ranks are here now.
    with closed_gate(accelerator) as gate:
        pending = _run_ar(**numbers_of(group.rank, 5), group=group)
        returned_while_busy = gate.closed
        state = pending.read().tolist()
        read_while_busy = gate.closed
    accelerator.synchronize()
    return {
        "state": state,
        "returned while busy": returned_while_busy,
        "read while busy": read_while_busy,
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), run_rank)
