"""Measures the constants of a GPU's cost model, from which sim computes its times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import torch

from debubble.accelerator import Accelerator, Graph
from debubble.clock.cost import CostModel
from debubble.clock.kernel_table import table_for
from debubble.recording import record

from .kernels import copy_words, many_arguments, matrix_product
from .model import Model
from .pieces import TimedPieces, cliff

REPEATS = 40
"""Number of calls in one timed loop: fewer launches than a device queues before the host has to
wait."""
ROUNDS = 15
MATRIX = 8192
TILE = 128
TINY = 64
WORDS = 2048
BIG = 1 << 28
"""Bytes of the large buffers, far more than any cache of a GPU holds."""


def calibrate(accelerator: Accelerator) -> Iterator[tuple[str, float]]:
    """Measures a real GPU, and yields (name, value) of each constant of its cost model:
    microseconds, or bytes or operations a microsecond."""
    bench = _Bench(accelerator)
    model = Model(accelerator)
    calls = bench.host_together(
        {
            "view": lambda: bench.tiny[0],
            "add": lambda: bench.tiny.add_(1),
            "product": lambda: torch.mm(bench.tiny, bench.tiny),
            "triton": bench.launch_triton,
            "copy": lambda: bench.tiny.copy_(bench.pinned, non_blocking=True),
            "step": model,
        }
    )
    op = calls["view"]
    launch, triton, copy_call = (calls[name] - op for name in ("add", "triton", "copy"))
    gemm = calls["product"] - calls["add"]
    in_a_model = calls["step"] / model.host_us(op, launch, gemm, triton)
    yield "op_us", op * in_a_model
    yield "launch_us", launch * in_a_model
    yield "gemm_launch_us", gemm * in_a_model
    yield "triton_launch_us", triton * in_a_model
    yield "copy_call_us", copy_call * in_a_model
    event = accelerator.event()
    sync = bench.host(event.synchronize)
    yield "sync_us", sync
    wait = bench.host(lambda: accelerator.current_stream().wait_event(event))
    yield "event_us", statistics.mean([bench.host(event.record), wait])
    yield "graph_launch_us", bench.host(bench.graph().replay)

    stream = accelerator.current_stream()
    kernel, _ = bench.chain(lambda: bench.tiny.add_(1))

    def there_and_back() -> None:
        bench.tiny.add_(1)
        stream.synchronize()

    start = max(0.5, bench.host(there_and_back) - op - launch - kernel - sync)
    yield "start_latency_us", start
    durations, gap = model.durations_and_gap()
    yield "gap_us", gap
    yield "graph_gap_us", bench.graph_gap()
    yield "kernel_us", durations["vector"]
    yield "gemm_us", durations["library"]
    yield "triton_us", bench.chain(bench.tiny_product)[0]
    blocking = bench.host(lambda: bench.tiny.copy_(bench.pageable))
    yield "copy_us", max(0.5, blocking - op - copy_call - start - sync)
    yield "small_copy_us", bench.duration(bench.tiny[0, 0].item, "copy")

    big, host = bench.big, torch.empty(BIG, dtype=torch.uint8, pin_memory=accelerator.pin_memory)
    floats = big.view(torch.float32)
    yield "memory_bandwidth", 2 * BIG / bench.duration(lambda: floats.add_(1), "kernel")
    yield "h2d_bandwidth", BIG / bench.duration(lambda: big.copy_(host, non_blocking=True), "copy")
    plain = torch.zeros(BIG, dtype=torch.uint8)
    yield "pageable_bandwidth", BIG / bench.host(lambda: big.copy_(plain), repeats=5)
    yield "d2h_bandwidth", BIG / bench.duration(lambda: host.copy_(big, non_blocking=True), "copy")
    yield "link_bandwidth", BIG / bench.reading(host)
    yield from small_copies(TimedPieces(accelerator, host, big))
    yield from bench.arithmetic()


def small_copies(pieces: TimedPieces) -> Iterator[tuple[str, float]]:
    host = pieces.host_us_by_size()
    size = cliff(host)
    yield "batch_cliff_bytes", size
    yield "small_piece_call_us", statistics.median(host[s] for s in host if s < size)
    yield "large_piece_call_us", statistics.median(host[s] for s in host if s >= size)
    yield "piece_us", pieces.engine_us()


def cost_model(gpu: str, constants: dict[str, float]) -> CostModel:
    """Returns the CostModel of `gpu` with these constants: whole numbers as they are, other numbers
    rounded to four digits."""
    return CostModel(
        gpu=gpu,
        kernels=table_for(gpu),
        **{
            name: value if isinstance(value, int) else float(f"{value:.4g}")
            for name, value in constants.items()
        },
    )


class _Bench:
    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        device = accelerator.device
        self.tiny = torch.randn(TINY, TINY, device=device)
        self.tiny_out = torch.empty_like(self.tiny)
        self.pageable = torch.randn(TINY, TINY)
        self.pinned = torch.randn(TINY, TINY, pin_memory=accelerator.pin_memory)
        self.half = torch.randn(TINY, TINY, device=device, dtype=torch.bfloat16)
        self.half_out = torch.empty_like(self.half)
        self.big = torch.zeros(BIG, dtype=torch.uint8, device=device)

    def host(self, call: Callable[[], object], repeats: int = REPEATS) -> float:
        """Returns the median microseconds that one `call` takes on the host, over loops of
        `repeats` calls."""
        return self.host_together({"call": call}, repeats)["call"]

    def host_together(
        self, calls: dict[str, Callable[[], object]], repeats: int = REPEATS
    ) -> dict[str, float]:
        """Returns the host microseconds of each call: the median of several loops. The calls take
        turns, so that a slow moment of the machine affects all of them."""
        loops: dict[str, list[float]] = {name: [] for name in calls}
        for call in calls.values():
            for _ in range(min(20, repeats)):
                call()
        for _ in range(ROUNDS):
            for name, call in calls.items():
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(repeats):
                    call()
                loops[name].append((time.perf_counter() - start) / repeats * 1e6)
        torch.cuda.synchronize()
        return {name: statistics.median(values) for name, values in loops.items()}

    def chain(self, call: Callable[[], object]) -> tuple[float, float]:
        """Returns two medians in microseconds for 100 calls that are queued behind a sleep: the
        duration of the kernel that `call` launches, and the gap to the next kernel."""
        call()
        with record(self.accelerator) as timeline:
            self.accelerator.sleep(10)
            for _ in range(100):
                call()
        kernels = [e for e in timeline.events if e.kind == "kernel"][1:]
        gaps = [b.start - a.end for a, b in pairwise(kernels)]
        return statistics.median(e.duration for e in kernels), statistics.median(gaps)

    def duration(self, call: Callable[[], object], kind: str, repeats: int = 10) -> float:
        """Returns the median duration, in device microseconds, of the events of this `kind` (such
        as "copy") that `repeats` calls cause."""
        call()
        with record(self.accelerator) as timeline:
            for _ in range(repeats):
                call()
        return statistics.median(e.duration for e in timeline.events if e.kind == kind)

    def graph(self) -> Graph:
        graph = self.accelerator.graph()
        with graph.capture():
            self.tiny + 1
        return graph

    def graph_gap(self) -> float:
        """Returns the median gap, in microseconds, between two kernels of one graph."""
        graph = self.accelerator.graph()
        with graph.capture():
            for _ in range(100):
                self.tiny.add_(1)
        return self.chain(graph.replay)[1]

    def launch_triton(self) -> None:
        tiny, out = self.tiny, self.tiny_out
        numbers = (TINY, TINY, 1, 2, 3, 4, 5, 0.5)
        self.accelerator.launch(
            many_arguments, (4,), tiny, out, tiny, out, tiny, out, *numbers, BLOCK=1024
        )

    def tiny_product(self) -> None:
        self.accelerator.launch(
            matrix_product,
            (1, 1),
            self.half,
            self.half,
            self.half_out,
            SIZE=TINY,
            BLOCK=TINY,
            INNER=16,
        )

    def reading(self, host: torch.Tensor) -> float:
        """Returns the device microseconds of a kernel that reads `host`. If memory can't be pinned,
        returns those of a copy, since a kernel can only read pinned host memory."""
        if not host.is_pinned():
            return self.duration(lambda: self.big.copy_(host), "copy")
        source, target = host.view(torch.int64), self.big.view(torch.int64)
        grid = (source.numel() // WORDS,)
        return self.duration(
            lambda: self.accelerator.launch(copy_words, grid, source, target, BLOCK=WORDS), "kernel"
        )

    def arithmetic(self) -> Iterator[tuple[str, float]]:
        operations = 2.0 * MATRIX**3
        half = torch.randn(MATRIX, MATRIX, device=self.accelerator.device, dtype=torch.bfloat16)
        out = torch.empty_like(half)
        yield "tensor_flops", operations / self.duration(lambda: half @ half, "kernel", repeats=5)

        def product() -> None:
            self.accelerator.launch(
                matrix_product,
                (MATRIX // TILE, MATRIX // TILE),
                half,
                half,
                out,
                SIZE=MATRIX,
                BLOCK=TILE,
                INNER=64,
                num_warps=8,
                num_stages=3,
            )

        yield "triton_flops", operations / self.duration(product, "kernel", repeats=5)
        single = half[:4096, :4096].float()
        product_of_singles = self.duration(lambda: single @ single, "kernel", repeats=5)
        yield "vector_flops", 2.0 * 4096**3 / product_of_singles
