"""Triton's driver and benchmarks for code that says "cuda": they need no GPU and no compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch

from .refusing import NotSimulated, say_once

BENCHMARK = (
    "triton.testing.do_bench calls its function once on sim and returns modelled time: a Triton "
    "kernel's time depends only on the bytes of its arguments"
)
COMPILED = (
    "Triton compiles nothing on sim: a warmed-up kernel always reports 32 registers and 1024 bytes "
    "of shared memory"
)
AHEAD_MS = 0.2
"""How long the device sleeps before a timed function, in milliseconds, so that its launches queue
up."""
CLOCKS = {
    "NVIDIA H200": (3_201_000, 6144),
    "NVIDIA H100 80GB HBM3": (2_619_000, 5120),
}
"""Each GPU's memory clock in kHz, and its memory bus width in bits."""
SM_CLOCK = 1_980_000
"""The clock of the GPUs' streaming multiprocessors, in kHz."""


def of_sim(driver: Any) -> dict[str, object]:
    """Returns the attributes to set on `triton.runtime.driver`, all of them sim's driver, by the
    names that this version of Triton uses."""
    made = _driver()
    names = ("_active", "active", "_default", "default")
    return {name: made for name in names if name in vars(driver)}


def _driver() -> Any:
    from triton.backends.driver import GPUDriver
    from triton.backends.nvidia.driver import CudaDriver

    class SimDriver(CudaDriver):
        def __init__(self) -> None:
            GPUDriver.__init__(self)
            self.get_current_stream = lambda device=None: torch.cuda.current_stream().cuda_stream
            self.utils = SimpleNamespace(get_device_properties=_properties)

    return SimDriver()


def _properties(device: int = 0) -> dict[str, int]:
    """Returns the properties that Triton's own driver reads from a GPU."""
    gpu: Any = torch.cuda.get_device_properties(device)
    memory_clock, bus = CLOCKS[gpu.name]
    return {
        "max_shared_mem": gpu.shared_memory_per_block_optin,
        "max_num_regs": gpu.regs_per_multiprocessor,
        "multiprocessor_count": gpu.multi_processor_count,
        "warpSize": gpu.warp_size,
        "sm_clock_rate": SM_CLOCK,
        "mem_clock_rate": memory_clock,
        "mem_bus_width": bus,
    }


def benchmarks(sleep: Callable[[float], None]) -> dict[str, object]:
    """Returns the benchmark functions of `triton.testing`. They call `sleep`, which takes
    milliseconds, to keep the device busy before the timed function is launched."""
    from debubble.private.triton import summarize_statistics

    def do_bench(
        fn: Callable[[], Any],
        warmup: float = 25,
        rep: float = 100,
        grad_to_none: Any = None,
        quantiles: list[float] | None = None,
        return_mode: str = "mean",
    ) -> Any:
        say_once(BENCHMARK)
        for tensor in grad_to_none or ():
            tensor.grad = None
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        sleep(AHEAD_MS)
        begin.record()
        fn()
        end.record()
        end.synchronize()
        return summarize_statistics([begin.elapsed_time(end)], quantiles, return_mode)

    def do_bench_cudagraph(fn: Callable[[], Any], rep: float = 20, *args: Any, **kwargs: Any):
        return do_bench(fn, 0, rep, *args, **kwargs)

    return {"do_bench": do_bench, "do_bench_cudagraph": do_bench_cudagraph}


class WarmedUp:
    """The result of `kernel.warmup(...)`: `warmed[grid](...)` launches the kernel."""

    n_regs, n_spills = 32, 0

    def __init__(self, kernel: Any, meta: Mapping[str, Any]) -> None:
        say_once(COMPILED)
        self.kernel = kernel
        chosen = {name: meta.get(name) for name in ("num_warps", "num_stages", "num_ctas")}
        self.metadata = SimpleNamespace(name=kernel.__name__, shared=1024, **chosen)

    def _init_handles(self) -> None:
        """Does nothing: sim has no compiled code to load."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return self.kernel[grid]

    @property
    def asm(self) -> Iterator[str]:
        raise NotSimulated("the code of a kernel can't be simulated: Triton compiles nothing here.")
