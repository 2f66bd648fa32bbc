"""The ranks of a data-parallel group, as processes: `run_ranks` starts them and returns what they
saw.

This is not a test module: run it as `python -m tests.sync_free.data_parallel_ranks SIZE FOLDER`.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist

import debubble
from solutions.sync_free.model import data_parallel_group
from solutions.sync_free.model.data_parallel_group import DataParallelGroup
from solutions.sync_free.sites.data_parallel import _run_ar
from tests.gate import SHORT_MS, closed_gate

ROOT = Path(__file__).parents[2]
BACKENDS = {"cuda": "nccl", "sim": "gloo"}
MAX_TOKENS = 8192
STEPS = 64
TIMEOUT_S = 120.0


def run_ranks(device: str, size: int, folder: Path, module: str = __name__) -> list[dict]:
    """Runs `size` ranks, and returns what each of them wrote to its file in `folder`. Raises
    AssertionError, with their output, if one failed.

    `module` calls `main` with a size and a folder when it is run.
    """
    environment = {name: v for name, v in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"DEBUBBLE_DEVICE": device, "OMP_NUM_THREADS": "1", "NCCL_NVLS_ENABLE": "0"}
    result = subprocess.run(
        [sys.executable, "-m", module, str(size), str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * TIMEOUT_S,
    )
    assert result.returncode == 0, result.stderr[-5000:]
    return [json.loads((folder / f"rank_{rank}.json").read_text()) for rank in range(size)]


def main(size: int, folder: Path, run_rank: Callable[[int, int, Path], None]) -> None:
    """Runs run_rank(rank, size, folder) in a process for each rank. If one fails or takes too long,
    the others are killed, since they would hang, and this process exits with an error."""
    # A process that used CUDA can't be forked. Other processes share one import of torch.
    forks = sys.platform == "linux" and os.environ["DEBUBBLE_DEVICE"] == "sim"
    context = multiprocessing.get_context("fork" if forks else "spawn")
    ranks = [context.Process(target=run_rank, args=(rank, size, folder)) for rank in range(size)]
    for rank in ranks:
        rank.start()
    deadline = time.monotonic() + TIMEOUT_S
    running = {process.sentinel: process for process in ranks}
    while running and not any(process.exitcode for process in ranks):
        ended = wait(list(running), timeout=deadline - time.monotonic())
        if not ended:
            break
        for sentinel in ended:
            running.pop(sentinel).join()
    for process in running.values():
        process.kill()
        process.join()
    codes = [process.exitcode for process in ranks]
    if any(codes):
        sys.exit(f"the ranks ended with {codes}, rank 0 first; -9 is one that was ended here")


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
    rows = [*data_parallel_group.Row, "one more"] if odd else data_parallel_group.Row
    told = {}
    for what, own_size, limit, own_rows in (
        ("size", size + odd, MAX_TOKENS, data_parallel_group.Row),
        ("limit", size, MAX_TOKENS + odd, data_parallel_group.Row),
        ("rows", size, MAX_TOKENS, rows),
    ):
        with mock.patch.object(data_parallel_group, "Row", own_rows):
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
