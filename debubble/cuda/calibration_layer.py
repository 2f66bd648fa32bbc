"""A layer of plain PyTorch, for what a loop over one call can't show.

In the midst of a model the host is slower than in a loop: other code is in its caches, and Python
runs between the calls. And small kernels take as long as such kernels do, not as the shortest one.
"""

from __future__ import annotations

import statistics
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from ..recording import record
from ..rules.composition import is_view
from ..sim.work import unit_of
from .accelerator import CudaAccelerator
from .calibration_kernels import many_arguments

TOKENS, WIDTH = 256, 64
LAYERS = 20


class CalibrationLayer:
    def __init__(self, accelerator: CudaAccelerator) -> None:
        self.accelerator = accelerator
        place = {"device": accelerator.device, "dtype": torch.bfloat16}
        self.hidden = torch.randn(TOKENS, WIDTH, **place)
        self.wide, self.narrow = (
            torch.randn(4 * WIDTH, WIDTH, **place),
            torch.randn(WIDTH, WIDTH, **place),
        )
        self.cache = torch.zeros(TOKENS // 16, 16, WIDTH, **place)
        self.slots = torch.arange(TOKENS, device=accelerator.device)
        self.out = torch.empty_like(self.hidden)

    def run(self) -> None:
        first, gate, up, rows = F.linear(self._normalised(), self.wide).chunk(4, dim=-1)
        self.cache.flatten(0, 1).index_copy_(0, self.slots, rows)
        self._launch_triton(first)
        hidden = self.hidden + F.linear(self.out, self.narrow)
        hidden + F.linear(F.gelu(gate, approximate="tanh") * up, self.narrow)

    def host_us(self, op: float, launch: float, gemm: float, triton: float) -> float:
        """What one run should take by the constants of single calls."""
        with _Calls() as calls:
            self.run()
        return (
            calls.views * op
            + calls.launches * (op + launch)
            + calls.products * gemm
            + (op + triton)
        )

    def durations_and_gap(self) -> tuple[dict[str, float], float]:
        """Mean microseconds of a small kernel by unit, and of the gap to the next one."""
        self.run()
        with record(self.accelerator) as timeline:
            self.accelerator.sleep(50)
            for _ in range(LAYERS):
                self.run()
        kernels = [event for event in timeline.events if event.kind == "kernel"][1:]
        by_unit: dict[str, list[float]] = {"vector": [], "library": []}
        for event in kernels:
            if event.name != many_arguments.__name__:
                by_unit[unit_of(event.name)].append(event.duration)
        gaps = [after.start - before.end for before, after in pairwise(kernels)]
        means = {unit: statistics.mean(durations) for unit, durations in by_unit.items()}
        return means, statistics.median(gaps)

    def _normalised(self) -> torch.Tensor:
        return F.normalize(self.hidden, dim=-1) * WIDTH**0.5

    def _launch_triton(self, rows: torch.Tensor) -> None:
        tensors = (rows, self.out, rows, self.out, rows, self.out)
        numbers = (TOKENS, WIDTH, rows.stride(0), self.out.stride(0), 3, 4, 5, 0.5)
        grid = (TOKENS * WIDTH // 1024,)
        self.accelerator.launch(many_arguments, grid, *tensors, *numbers, BLOCK=1024)


class _Calls(TorchDispatchMode):
    """Counts operators as sim's cost model tells them apart."""

    def __init__(self) -> None:
        super().__init__()
        self.views = self.launches = self.products = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if is_view(func) or "empty" in func.name():
            self.views += 1
        else:
            self.launches += 1
            self.products += unit_of(func.name().removeprefix("aten::")) == "library"
        return func(*args, **(kwargs or {}))
