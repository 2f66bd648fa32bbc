"""Tests of what is counted and timed need not wait for what the kernels compute."""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext


def schedule_only(accelerator, run: Collection[str] = ()) -> AbstractContextManager[None]:
    """Makes sim launch and time Triton kernels in the block, and run only those named in `run`.
    On a GPU all run."""
    return accelerator.schedule_only(run) if accelerator.modelled else nullcontext()
