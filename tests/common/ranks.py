"""Ranks as processes: `run_ranks` starts them and returns what each of them saw."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

ROOT = Path(__file__).parents[2]
BACKENDS = {"cuda": "nccl", "sim": "gloo"}
MAX_TOKENS = 8192
TIMEOUT_S = 120.0


def run_ranks(device: str, size: int, folder: Path, module: str) -> list[dict]:
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
