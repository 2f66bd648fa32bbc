"""Runs a chapter's cells in order, and again in random orders, as a reader's kernel may.

    python -m tests.chapters.orders chapters/05_offload.ipynb 0 1 2

runs all cells once, and then for each of the seeds 0, 1 and 2 as many cells as the chapter has,
drawn with repeats, in a fork of that process. A cell may raise what it wants. The process exits
with 1 if a cell raises in the chapter's own order, or if a fork ends before its last cell.
"""

from __future__ import annotations

import faulthandler
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from .notebooks import cells_of

LIMIT = 300
"""The CPU seconds for one order. The longest, of chapter 06, takes about a tenth of them."""

Run = Callable[[int], BaseException | None]


def sources_of(path: Path) -> list[str]:
    return [cell.source for cell in cells_of(path) if cell.kind == "code"]


def order_of(seed: int, cells: int) -> list[int]:
    return random.Random(seed).choices(range(cells), k=cells)


def in_a_fork(run: Run, order: list[int]) -> tuple[str, list[int], int]:
    """Runs the cells `order` in a fork of this process. Returns how the fork ended ("" if after its
    last cell), the cells that began, and how many cells raised an error."""
    cells_began, begins = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
        os.close(cells_began)
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        try:
            for cell in order:
                os.write(begins, f"{cell} ".encode())
                if run(cell) is not None:
                    os.write(begins, b"- ")
        except BaseException as error:
            os.write(begins, f"{type(error).__name__} ".encode())
            os._exit(1)
        os._exit(0)
    os.close(begins)
    with open(cells_began, encoding="utf-8") as lines:
        words = lines.read().split()
    _, status = os.waitpid(child, 0)
    began = [int(word) for word in words if word.isdigit()]
    return _ending(status, words), began, words.count("-")


def _ending(status: int, words: list[str]) -> str:
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return f"{name}, after {LIMIT} CPU seconds" if name == "SIGXCPU" else name
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code} after {words[-1]}" if code else ""


def ipython(sources: list[str]) -> Run:
    """Returns run(number), which runs the source `number` as a cell in IPython, and returns its
    error or None."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    shell.showtraceback = lambda *args, **kwargs: None

    def run(cell: int) -> BaseException | None:
        result = shell.run_cell(sources[cell], store_history=False)
        return result.error_before_exec or result.error_in_exec

    return run


def main(path: Path, seeds: list[int]) -> int:
    faulthandler.enable()
    # The cells' output is dropped; their outcome goes to the caller.
    report = open(os.dup(1), "w", encoding="utf-8", buffering=1)  # noqa: SIM115
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sources = sources_of(path)
    run = ipython(sources)
    for cell in range(len(sources)):
        if error := run(cell):
            print(f"{path.stem}: cell {cell} in order: {error!r}", file=report)
            return 1
    failed = 0
    for seed in seeds:
        ending, began, errors = in_a_fork(run, order_of(seed, len(sources)))
        said = f"ended by {ending}, cells run {began}" if ending else f"{errors} raised an error"
        print(f"{path.stem}, seed {seed}: {len(began)} cells, {said}", file=report)
        failed += bool(ending)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [int(seed) for seed in sys.argv[2:]]))
