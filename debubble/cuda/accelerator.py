"""The accelerator of a real GPU, as chapters, katas and solutions use it."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch.profiler import ProfilerActivity, profile

from debubble.traces.names import BEGIN, END

from ..contract import backward_pass
from ..contract.addresses import MemoryRange
from ..contract.host_syncs import allow_host_sync
from ..contract.packages.triton_mode import check_launch
from ..contract.protocol import Accelerator, Event, Stream, Work, described_by
from ..contract.python import follow
from ..contract.recorded import Also, HostTimes
from ..private.torch import ExperimentalConfig
from ..timeline.data import TimelineData
from ..timeline.event import Hazard
from .compilations import Compilations
from .driver.addresses import Addresses
from .driver.byte_copies import ByteCopies
from .driver.driver import Driver
from .flex_attention import CudaFlexAttention
from .graph import CudaGraph
from .guard import interposition
from .guard.watch import SyncWatch
from .memory_limit import limit_memory
from .sleep import sleep
from .trace.kineto import events_of
from .trace.marks import Marks, annotate, hooks_marked, marked

if TYPE_CHECKING:
    import numpy as np
    from torch.nn.attention.flex_attention import BlockMask

    from .trace.kineto_rows import Trace

ACTIVITIES = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


@described_by(Accelerator)
class CudaAccelerator:
    name: Final = "cuda"
    modelled = False

    def __init__(self) -> None:
        """Prepares the current GPU: limits its memory, wraps PyTorch's waits, and opens the driver.
        Raises ValueError if DEBUBBLE_GPU_MEMORY is no number of GiB above 0."""
        self.device = torch.device("cuda", torch.cuda.current_device())
        limit_memory(self.device)
        self.pin_memory = _can_pin()
        interposition.install()
        backward_pass.install(around=hooks_marked)
        self._flex_attention = CudaFlexAttention()
        self._compilations = Compilations()
        self._compilations.watch_triton()
        self._profiled_before = False
        sleep[(1,)](1000)
        driver = Driver()
        self._addresses, self._copies = Addresses(driver), ByteCopies(driver, self.device.index)

    @property
    def description(self) -> str:
        return torch.cuda.get_device_name(self.device)

    # These are PyTorch's own streams and events, which accept each other; no other kinds exist
    # here.

    def stream(self) -> Stream:
        return cast(Stream, torch.cuda.Stream())

    def current_stream(self) -> Stream:
        return cast(Stream, torch.cuda.current_stream())

    def event(self) -> Event:
        return cast(Event, torch.cuda.Event())

    def graph(self) -> CudaGraph:
        return CudaGraph()

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def sleep(self, milliseconds: float) -> None:
        """Keeps the current stream busy for `milliseconds` with one kernel, and returns at once."""
        if milliseconds < 0:
            raise ValueError(f"sleep takes milliseconds of at least 0, not {milliseconds}")
        self.launch(sleep, (1,), int(milliseconds * 1e6))

    def launch(
        self,
        kernel: Any,
        grid: tuple[int, ...] | None,
        *args: Any,
        work: Work | Callable[[], Work] | None = None,
        **meta: Any,
    ) -> Any:
        """Launches a Triton kernel, or calls a plain function and returns its result if `grid` is
        None; `work` is for sim's cost model and ignored here."""
        check_launch(kernel, grid, self.name)
        if grid is not None and 0 in grid:
            return None
        with marked():
            return (kernel if grid is None else kernel[grid])(*args, **meta)

    def flex_attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        block_mask: BlockMask,
        scale: float | None = None,
    ) -> torch.Tensor:
        """Computes attention with PyTorch's FlexAttention. The first call of each specialisation
        takes a second or two, to compile."""
        return self._flex_attention(query, key, value, block_mask, scale)

    @property
    def flex_compilations(self) -> int:
        """The number of compilations for `flex_attention`, as PyTorch counts them."""
        return self._flex_attention.compilations

    def memory_at(self, address: int) -> MemoryRange | None:
        return self._addresses.memory_at(address)

    def copy_bytes(self, source: int, target: int, nbytes: int) -> None:
        self._copies.copy(source, target, nbytes)

    @property
    def has_copy_batch(self) -> bool:
        return self._copies.batch is not None

    def copy_batch(
        self,
        sources: np.ndarray,
        targets: np.ndarray,
        sizes: np.ndarray,
        *,
        any_order: bool = False,
    ) -> None:
        self._copies.copy_batch(sources, targets, sizes, any_order)

    def copy_lists(
        self, sources: int, targets: int, sizes: int, count: int, *, any_order: bool = False
    ) -> None:
        self._copies.copy_lists(sources, targets, sizes, count, any_order)

    def register_host_memory(self, address: int, nbytes: int) -> None:
        self._addresses.register(address, nbytes)

    def unregister_host_memory(self, address: int) -> None:
        self._addresses.unregister(address)

    @contextmanager
    def recording(
        self,
        timeline: TimelineData,
        most_calls: int | None = None,
        host: HostTimes | None = None,
        also: frozenset[Also] = frozenset(),
    ) -> Iterator[Callable[[], float]]:
        with allow_host_sync():
            self._warm_up_the_profiler()
            torch.cuda.synchronize()
        with ExitStack() as running:

            def stop() -> None:
                """Ends the profiling, at once if the recording is full, and even inside a region
                that forbids host syncs."""
                with allow_host_sync():
                    running.close()

            marks = Marks(most_calls, when_full=stop)
            profiler = running.enter_context(_profiling())
            running.enter_context(_bounded())
            if "compile" in also:
                running.enter_context(self._compilations.noted(marks.compilation))
            began = perf_counter()
            try:
                with follow.into_threads(marks.in_this_thread), marks.in_this_thread():
                    yield lambda: (perf_counter() - began) * 1e6
            finally:
                stop()
                marks.is_over = True
                timeline.cut_off = marks.is_full
                timeline.events.extend(events_of(_trace_of(profiler), marks, also))

    @contextmanager
    def proving_races(self) -> Iterator[list[Hazard]]:
        """Yields an empty list: a race shows on a GPU only now and then, and can't be proved."""
        yield []

    @contextmanager
    def watching_for_syncs(self) -> Iterator[None]:
        with SyncWatch():
            yield

    @contextmanager
    def watching_for_compiles(self) -> Iterator[None]:
        """Checks each compilation from now on: the hooks stay installed."""
        self._compilations.watch_torch_compile()
        yield

    def _warm_up_the_profiler(self) -> None:
        """Runs the profiler once before the first recording of a process, which would otherwise
        show the profiler's own start."""
        if not self._profiled_before:
            self._profiled_before = True
            with _profiling():
                torch.zeros(1, device=self.device)
                torch.cuda.synchronize()


@contextmanager
def _profiling() -> Iterator[profile]:
    """Profiles host calls of every thread and the GPU's work in the block. The profiler keeps one
    cycle: with more, PyTorch would build objects of each event for its own tables. The ignored
    warning is about keeping only one."""
    everywhere = ExperimentalConfig(profile_all_threads=True)
    profiler = profile(activities=ACTIVITIES, experimental_config=everywhere)
    with ExitStack() as running:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*Profiler clears events")
            running.enter_context(profiler)
        yield profiler


@contextmanager
def _bounded() -> Iterator[None]:
    """Marks in the trace where the block, the learner's part, begins and ends; then waits for the
    device."""
    with annotate(BEGIN):
        pass
    try:
        yield
    finally:
        with annotate(END):
            pass
        torch.cuda.synchronize()


def _trace_of(profiler: profile) -> Trace:
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    try:
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            return json.load(file)
    finally:
        os.unlink(path)


def _can_pin() -> bool:
    """Returns True if memory can be pinned. Some platforms with CUDA, such as WSL, have no
    page-locked memory."""
    try:
        return torch.empty(1, pin_memory=True).is_pinned()
    except RuntimeError:
        return False
