"""as_cuda: runs code that says "cuda", unchanged, on the simulated accelerator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..contract.python.warned_at import at_the_users_line
from .choice import accelerator


@contextmanager
def as_cuda() -> Iterator[None]:
    """Makes "cuda" mean sim in the block, in every thread: `device="cuda"`, `.cuda()`,
    `torch.cuda`, `torch.autocast("cuda")`, `torch.accelerator`.

        with debubble.as_cuda(), debubble.find_host_syncs() as report:
            train()  # says .cuda(), and needs no GPU
        print(report)

    A call that can't be simulated raises an error with one sentence. Raises RuntimeError if this
    process uses a GPU already, or if PyTorch can't be redirected on this platform.
    """
    sim: Any = accelerator("sim")
    from .processes import processes_on_sim  # It needs PyTorch.

    with at_the_users_line(), sim.as_cuda(), processes_on_sim(as_cuda):
        yield
