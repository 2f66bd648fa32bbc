"""Tests of every benchmark's output, imported by the benchmark's own tests, and what makes its run
quick. Their fixture `run` returns (folder, printed text)."""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext


def timed_alone(accelerator, run: Collection[str] = ()) -> AbstractContextManager[None]:
    """Makes sim launch and time Triton kernels in the block, and run only those named in `run`: no
    figure of a benchmark depends on what the other kernels compute."""
    return accelerator.schedule_only(run) if accelerator.modelled else nullcontext()


def test_the_table_stays_within_a_terminal(run):
    printed = run[1]
    widest = max(printed.splitlines(), key=len)
    assert len(widest) <= 80, widest
    assert "…" not in printed, printed
