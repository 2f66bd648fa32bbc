"""The cells of a chapter, run in any order and any number of times, never end the kernel."""

import os
import subprocess
import sys

import pytest
import torch

from .notebooks import READERS, ROOT
from .orders import LIMIT, in_a_fork, ipython, order_of, sources_of

pytest.importorskip("IPython")
pytest.importorskip("triton", reason="a chapter's kernels run in Triton's interpreter")
pytestmark = pytest.mark.sim

ORDERS = 20


@pytest.fixture(autouse=True)
def as_in_a_readers_kernel(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("DEBUBBLE_ANSWERS", "at once")
    monkeypatch.setenv("DEBUBBLE_DEVICE", "sim")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.mark.deep
@pytest.mark.timeout(ORDERS * LIMIT)
@pytest.mark.parametrize("path", READERS, ids=lambda path: path.stem)
def test_no_order_of_a_chapters_cells_ends_the_process(path):
    seeds = map(str, range(ORDERS))
    command = [sys.executable, "-m", "tests.chapters.orders", str(path), *seeds]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    assert done.stdout.count("seed") == ORDERS


def test_one_order_of_the_first_chapter_does_not_end_the_process():
    """The cells of the first chapter run in order and then in one random order, without ending the
    process. The run is in a fork of this process, which already has the slow imports."""
    sources, shell = sources_of(READERS[0]), []

    def run(cell):
        if not shell:
            torch.set_num_threads(1)  # The threads of a pool don't survive a fork.
            shell.append(ipython(sources))
        return shell[0](cell)

    in_order, seed = [*range(len(sources))], 0
    order = in_order + order_of(seed, len(sources))
    ending, began, errors = in_a_fork(run, order)
    print(f"seed {seed}: {errors} of {len(began)} cells raised an error")
    assert (ending, began) == ("", order), f"seed {seed}"


@pytest.mark.parametrize(
    ("last", "ending"),
    [
        (lambda: os.kill(os.getpid(), 11), "SIGSEGV"),
        (lambda: os._exit(3), "exit code 3 after 2"),
        (lambda: sys.exit(), "exit code 1 after SystemExit"),
    ],
)
def test_an_order_that_ends_the_process_names_its_cells(last, ending):
    def run(cell):
        return ValueError() if cell == 1 else last() if cell == 2 else None

    assert in_a_fork(run, [0, 1, 0, 2, 1]) == (ending, [0, 1, 0, 2], 1)
    assert in_a_fork(run, [1, 0, 1]) == ("", [1, 0, 1], 2)


def test_an_order_that_hangs_is_ended_by_its_cpu_time(monkeypatch):
    monkeypatch.setattr("tests.chapters.orders.LIMIT", 1)

    def run(cell):
        while cell:
            pass

    assert in_a_fork(run, [0, 1, 0]) == ("SIGXCPU, after 1 CPU seconds", [0, 1], 0)


def test_a_seed_always_draws_the_same_cells_with_repeats():
    assert order_of(3, 50) == order_of(3, 50) != order_of(4, 50)
    assert len(set(order_of(3, 50))) < 50
