"""A small decoder in plain PyTorch, to measure effects that a loop over one call doesn't have.

Within a model the host is slower than in a loop: modules call modules, Python runs between the
calls, and other code is in the caches. And its small kernels take as long as a model's kernels do,
not as the shortest possible kernel.
"""

from __future__ import annotations

import statistics
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from debubble.accelerator import Accelerator
from debubble.private.torch import TorchDispatchMode
from debubble.recording import record
from debubble.rules.composition import is_view, name_of
from debubble.sim.operators.work import unit_of

from .kernels import many_arguments

TOKENS, WIDTH, LAYERS = 256, 64, 16


class Model(nn.Module):
    """A decoder whose `forward` is one step on the GPU, in which the host waits for nothing."""

    def __init__(self, accelerator: Accelerator) -> None:
        super().__init__()
        self.accelerator = accelerator
        self.layers = nn.ModuleList(Layer(accelerator) for _ in range(LAYERS))
        self.to(accelerator.device, torch.bfloat16).requires_grad_(False)
        device = accelerator.device
        self.hidden = torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16, device=device)
        self.slots = torch.arange(TOKENS, device=device)

    def forward(self) -> torch.Tensor:
        hidden = self.hidden
        for layer in self.layers:
            hidden = layer(hidden, self.slots)
        return hidden

    def host_us(self, op: float, launch: float, gemm: float, triton: float) -> float:
        """Returns the host microseconds that one step of the model would take if each call cost as
        much as in a loop: `op` for an operator, `launch`, `gemm` and `triton` on top for each kind
        of kernel."""
        with _CallCounter() as calls:
            self()
        launches = calls.launches * (op + launch) + calls.products * gemm
        return calls.views * op + launches + LAYERS * (op + triton)

    def durations_and_gap(self) -> tuple[dict[str, float], float]:
        """Returns two measurements of one step, in microseconds: the mean duration of its kernels
        by unit, "vector" or "library", and the median gap between two kernels."""
        self()
        with record(self.accelerator) as timeline:
            self.accelerator.sleep(50)
            self()
        kernels = [event for event in timeline.events if event.kind == "kernel"][1:]
        by_unit: dict[str, list[float]] = {"vector": [], "library": []}
        for event in kernels:
            if event.name != many_arguments.__name__:
                by_unit[unit_of(event.name)].append(event.duration)
        gaps = [after.start - before.end for before, after in pairwise(kernels)]
        means = {unit: statistics.mean(durations) for unit, durations in by_unit.items()}
        return means, statistics.median(gaps)


class Layer(nn.Module):
    cache: torch.Tensor

    def __init__(self, accelerator: Accelerator) -> None:
        super().__init__()
        self.accelerator = accelerator
        self.normalise = Normalisation()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate_up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.register_buffer("cache", torch.zeros(TOKENS // 16, 16, WIDTH))

    def forward(self, hidden: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        query, key, _ = self.qkv(self.normalise(hidden)).chunk(3, dim=-1)
        self.cache.flatten(0, 1).index_copy_(0, slots, key)
        hidden = hidden + self.out(self._attend(query))
        gate, up = self.gate_up(self.normalise(hidden)).chunk(2, dim=-1)
        return hidden + self.down(F.gelu(gate, approximate="tanh") * up)

    def _attend(self, query: torch.Tensor) -> torch.Tensor:
        """Stands for attention in the measured step: launches a kernel with as many arguments as an
        attention kernel, and does the host work around it. Returns that kernel's output, [tokens,
        width]."""
        tokens, width = query.shape
        out = torch.empty(tokens, width, dtype=query.dtype, device=query.device)
        tensors = (query, out, self.cache, self.cache, query, out)
        numbers = (tokens, width, query.stride(0), out.stride(0), 3, 4, 5, 0.5)
        grid = (tokens * width // 1024,)
        self.accelerator.launch(many_arguments, grid, *tensors, *numbers, BLOCK=1024)
        return out


class Normalisation(nn.Module):
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return F.normalize(hidden, dim=-1) * hidden.shape[-1] ** 0.5


class _CallCounter(TorchDispatchMode):
    """A counter of the operators that run in its block: views, launches, and matrix products among
    these, as sim's cost model tells them apart."""

    def __init__(self) -> None:
        super().__init__()
        self.views = self.launches = self.products = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if is_view(func) or "empty" in func.name():
            self.views += 1
        else:
            self.launches += 1
            self.products += unit_of(name_of(func)) == "library"
        return func(*args, **(kwargs or {}))
