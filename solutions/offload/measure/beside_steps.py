"""Measures how much loads slow down the steps beside them, and how fast the loads are, by the
number of programs that copy."""

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
"""Bytes of a piece, and number of pieces of a load."""
LOADS_UNDER_WAY = 3
"""Number of loads in flight: enough to keep the link busy, and few enough to end with the steps."""
STEPS = 16
BATCH, HIDDEN, MLP, QKV, LAYERS = 8, 4096, 14336, 6144, 8
"""Sizes of the matrix products of a decode step of Llama-3-8B's shape, in bfloat16, with a quarter
of its layers: 3.5 GB of weights, more than any cache holds."""


@dataclass(frozen=True)
class Beside:
    """Median measurements of one way of copying: how long a step takes while it loads, and how fast
    the loads are."""

    step_us: float
    """Microseconds of a step while loads run on another stream."""
    rate: float
    """Bytes per microsecond of the loads while steps run."""
    rate_alone: float
    """Bytes per microsecond of the loads while no step runs."""


def report_beside_steps(
    accelerator: Accelerator, console: Console, folder: Path | None, rounds: int = ROUNDS
) -> None:
    """Prints how much loads slow down steps on a GPU, as medians of `rounds` rounds, and writes it
    to `folder` if one is given. Without a GPU, or if the weights don't fit, it prints that it
    measures nothing."""
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
    """Returns the microseconds of a step without loads, and a `Beside` for each way of copying. "8
    programs" and so on are our kernel's. "dma" is the copy engine's list of pieces. "one copy" is
    as many bytes in one contiguous copy, which shows what steps lose to any copy at the link's
    rate. Raises RuntimeError on sim, which has no model of how many compute units are busy."""
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
    """Returns the shapes of the four weights of a layer."""
    return (QKV, HIDDEN), (HIDDEN, HIDDEN), (2 * MLP, HIDDEN), (HIDDEN, MLP)


def num_bytes() -> int:
    """Returns the most bytes of GPU memory that measuring needs: the weights, the largest one also
    in float32 while it is made, and the target of the copies."""
    sizes = [rows * columns for rows, columns in shapes()]
    return 2 * LAYERS * sum(sizes) + 4 * max(sizes) + max(MEMORY, SIZE * COUNT)


def by_kernel(num_programs: int) -> Copy:
    how = replace(Launch.for_pieces(SIZE), num_programs=num_programs)

    def copy(src: torch.Tensor, dst: torch.Tensor, sizes: torch.Tensor) -> None:
        copy_by_kernel(current(), (src, dst, sizes), Descriptors.of(src, dst, sizes), how)

    return copy


class StepsAndLoads:
    """A model step as a CUDA graph on one stream, and loads on another stream, measured while both
    run."""

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
        """Runs `steps` steps, and loads by `copy` until the last step has ended (2 * STEPS loads if
        there are no steps). Returns microseconds per step, and bytes per microsecond of the
        loads."""
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
    """Returns a function that returns False `times` times, and then True."""
    answers = iter(range(times))
    return lambda: next(answers, None) is None
