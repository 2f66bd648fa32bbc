"""What loads take from the steps that they run beside, and how fast they are there, by the number
of programs that copy."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torch.nn.functional import linear, silu

from debubble.accelerator import Accelerator, current
from solutions.measure.benchmark import fits, no_garbage, write_record

from ..choice.calibration import ways_for
from ..paths.descriptors import Descriptors, _new_descriptor_buffers
from ..swap_blocks import Launch, copy_by_kernel
from .grid import MEMORY, ROUNDS, CopiedMemory, Copy

NAME = "offload_beside_steps"
PROGRAMS = (8, 12, 16, 20, 32, 64)
SIZE, COUNT = 8192, 4096
"""Bytes of a piece, and pieces of a load."""
LOADS_UNDER_WAY = 3
"""So the link has always something to do, and the loads end with the steps."""
STEPS = 16
BATCH, HIDDEN, MLP, QKV, LAYERS = 8, 4096, 14336, 6144, 8
"""The products of a decode step of Llama-3-8B's shape, in bfloat16, with a quarter of its layers:
3.5 GB of weights that no cache holds."""


@dataclass(frozen=True)
class Beside:
    """Medians of one way of copying."""

    step_us: float
    """A step with loads beside it."""
    rate: float
    """Bytes a microsecond of these loads."""
    rate_alone: float
    """Bytes a microsecond of loads with nothing beside them."""


def report_beside_steps(
    accelerator: Accelerator, console: Console, folder: Path | None, rounds: int = ROUNDS
) -> None:
    """Prints what a GPU measured in `rounds` rounds, and writes it to `folder`. Without a GPU, or
    where the weights don't fit, it says so."""
    if accelerator.modelled:
        console.print("Loads beside steps are measured on a GPU.")
        return
    if not fits(accelerator, num_bytes()):
        console.print(f"Loads beside steps need {num_bytes() / 1e9:.1f} GB of the GPU's memory.")
        return
    step_us, ways = measure_beside_steps(accelerator, rounds=rounds)
    console.print(f"a step without loads {step_us / 1e3:8.3f} ms")
    for name, way in ways.items():
        console.print(
            f"{name:20} {way.step_us / 1e3:8.3f} ms a step, {way.rate / 1e3:5.1f} GB/s, "
            f"alone {way.rate_alone / 1e3:5.1f}"
        )
    if folder is not None:
        contents = {
            "piece_bytes": SIZE,
            "pieces": COUNT,
            "step_us": step_us,
            "ways": {name: vars(way) for name, way in ways.items()},
        }
        path = write_record(folder / f"{NAME}.json", NAME, accelerator, contents)
        console.print(f"written to {path}")


def measure_beside_steps(
    accelerator: Accelerator, *, programs: Sequence[int] = PROGRAMS, rounds: int = ROUNDS
) -> tuple[float, Mapping[str, Beside]]:
    """Microseconds of a step without loads, and what loads by so many programs do to it. "dma" is
    the copy engine's list of pieces, and "one copy" as many bytes that lie side by side: what the
    steps lose to any copy at the link's rate. RuntimeError on sim, whose compute units the model
    doesn't count."""
    if accelerator.modelled:
        raise RuntimeError(
            f"loads beside steps are measured on a real GPU, and this is {accelerator.description}"
        )
    ways: dict[str, Copy] = {f"{number} programs": by_kernel(number) for number in programs}
    ways["dma"] = ways_for(SIZE)["dma"]
    with no_garbage():
        meter = StepsAndLoads(accelerator)
        ways["one copy"] = meter.one_copy
        for copy in ways.values():
            meter.run(copy, steps=1)  # compiles
        alone = [meter.run(None)[0]]
        beside: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        rates: dict[str, list[float]] = {name: [] for name in ways}
        random = np.random.default_rng(0)
        for _ in range(rounds):
            for name in random.permutation(list(ways)).tolist():
                beside[name].append(meter.run(ways[name]))
                rates[name].append(meter.run(ways[name], steps=0)[1])
            alone.append(meter.run(None)[0])
    found = {}
    for name in ways:
        step_us, rate = (statistics.median(column) for column in zip(*beside[name], strict=True))
        found[name] = Beside(step_us, rate, statistics.median(rates[name]))
    return statistics.median(alone), found


def shapes() -> tuple[tuple[int, int], ...]:
    """Of a layer's weights."""
    return (QKV, HIDDEN), (HIDDEN, HIDDEN), (2 * MLP, HIDDEN), (HIDDEN, MLP)


def num_bytes() -> int:
    """All that a GPU holds while it measures: the weights, one of them also in float32 while it is
    made, and what is copied to."""
    sizes = [rows * columns for rows, columns in shapes()]
    return 2 * LAYERS * sum(sizes) + 4 * max(sizes) + max(MEMORY, SIZE * COUNT)


def by_kernel(num_programs: int) -> Copy:
    how = replace(Launch.for_pieces(SIZE), num_programs=num_programs)

    def copy(src: torch.Tensor, dst: torch.Tensor, sizes: torch.Tensor) -> None:
        copy_by_kernel(current(), (src, dst, sizes), Descriptors.of(src, dst, sizes), how)

    return copy


class StepsAndLoads:
    """Steps of a graph on one stream, loads on another."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        memory = CopiedMemory.for_grid(accelerator, [SIZE], [COUNT])
        self._memory = memory
        self._lists = [_new_descriptor_buffers(COUNT) for _ in range(LOADS_UNDER_WAY + 1)]
        for listed in self._lists:
            listed.copy_(memory.descriptors(SIZE, COUNT))
        self._compute, self._loading = torch.cuda.Stream(), accelerator.stream()
        self._graph = self._capture_step()

    def one_copy(self, *columns: torch.Tensor) -> None:
        nbytes = SIZE * COUNT
        self._memory.device[:nbytes].copy_(self._memory.host[:nbytes], non_blocking=True)

    def run(self, copy: Copy | None, steps: int = STEPS) -> tuple[float, float]:
        """Microseconds a step, and bytes a microsecond of the loads that are begun until the last
        step has ended; without steps, of 2 * STEPS loads."""
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        with torch.cuda.stream(self._compute):
            first.record()
            for _ in range(steps):
                self._graph.replay()
            last.record()
        rate = 0.0
        if copy is not None:
            enough = last.query if steps else _after(2 * STEPS)
            rate = self._load_until(enough, copy)
        torch.cuda.synchronize()
        return first.elapsed_time(last) * 1e3 / max(steps, 1), rate

    def _load_until(self, enough: Callable[[], bool], copy: Copy) -> float:
        under_way: deque[torch.cuda.Event] = deque()
        with self._loading:
            begin = torch.cuda.Event(enable_timing=True)
            begin.record()
            loads = 0
            while not enough() or loads < LOADS_UNDER_WAY:
                copy(*self._lists[loads % len(self._lists)])
                under_way.append(torch.cuda.Event(enable_timing=True))
                under_way[-1].record()
                loads += 1
                if len(under_way) > LOADS_UNDER_WAY:
                    under_way.popleft().synchronize()
        under_way[-1].synchronize()
        return loads * SIZE * COUNT / (begin.elapsed_time(under_way[-1]) * 1e3)

    def _capture_step(self) -> torch.cuda.CUDAGraph:
        def weight(rows: int, columns: int) -> torch.Tensor:
            device = self._accelerator.device
            return torch.randn(rows, columns, dtype=torch.bfloat16, device=device) / columns**0.5

        layers = [[weight(*shape) for shape in shapes()] for _ in range(LAYERS)]
        x = weight(BATCH, HIDDEN)

        def step() -> torch.Tensor:
            hidden = x
            for qkv, out, up, down in layers:
                hidden = linear(linear(hidden, qkv)[:, :HIDDEN], out)
                gate, value = linear(hidden, up).chunk(2, -1)
                hidden = linear(silu(gate) * value, down)
            return hidden

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self._compute):
            step()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=self._compute):
            step()
        self._layers = layers
        return graph


def _after(times: int) -> Callable[[], bool]:
    """Says no so many times, and then yes."""
    answers = iter(range(times))
    return lambda: next(answers, None) is None
