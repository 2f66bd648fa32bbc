"""SimAccelerator: the simulated accelerator that chapters, katas and solutions use."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, Final

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask

from ..clock.action import Action
from ..clock.cost import CostModel
from ..contract.addresses import MemoryRange, numbers_at
from ..contract.packages.triton_mode import check_launch
from ..contract.protocol import Accelerator, Work, described_by
from ..contract.recorded import Also, HostTimes, host_times
from ..timeline.data import TimelineData
from ..timeline.event import Hazard
from .clock.device import SimDevice
from .clock.graph import SimGraph
from .clock.own_python import SHORTEST_FINDING_US, SHORTEST_US, OwnPython, Spent
from .clock.streams import SimEvent, SimStream
from .flex.flex_attention import SimFlexAttention
from .kernels.address_copies import AddressCopies
from .kernels.launches import Launches
from .memory import pinning
from .memory.address_map import AddressMap
from .operators import backend
from .operators.execution import Operation, execute
from .operators.host_watch import watching

TRIED = 40
"""The calls by which a recording finds what lies between two calls on this machine."""
TIMES_OF_OWN, TIMES_OF_A_FINDING = 5.0, 40.0


@described_by(Accelerator)
class SimAccelerator:
    name: Final = "sim"
    modelled = True

    def __init__(self, cost: CostModel | None = None) -> None:
        if "OMP_NUM_THREADS" not in os.environ:
            # Waking a second thread takes longer than computing a lesson's small tensors.
            torch.set_num_threads(1)
        self._device = SimDevice(cost or CostModel.load())
        self._dispatcher = backend.register(self._device)
        self._flex_attention = SimFlexAttention(self._device)
        self._addresses = AddressMap()
        self._copies = AddressCopies(self._device, self._addresses)
        self._launches = Launches(self._device, self._addresses)
        self.device = torch.device("sim", 0)
        self.pin_memory = pinning.is_possible()

    @property
    def description(self) -> str:
        return f"sim, modelled on {self._device.cost.gpu}"

    def stream(self) -> SimStream:
        return self._device.streams.new()

    def current_stream(self) -> SimStream:
        return self._device.streams.current()

    def event(self) -> SimEvent:
        return SimEvent(self._device)

    def graph(self) -> SimGraph:
        return SimGraph(self._device)

    def synchronize(self) -> None:
        self._device.synchronize()

    def sleep(self, milliseconds: float) -> None:
        """Launches one kernel that lasts `milliseconds` on the current stream, and returns at once.

        Raises ValueError if `milliseconds` is negative."""
        if milliseconds < 0:
            raise ValueError(f"sleep takes milliseconds of at least 0, not {milliseconds}")
        action = Action("kernel", "sleep", flops=milliseconds * 1e3, unit="sleep")
        execute(self._device, Operation(lambda: None, lambda _: [action], has_result=False))

    def launch(
        self,
        kernel: Any,
        grid: tuple[int, ...] | None,
        *args: Any,
        work: Work | Callable[[], Work] | None = None,
        **meta: Any,
    ) -> Any:
        """Runs a Triton kernel, or a plain function if `grid` is None, on the CPU data, and records
        one launch of modelled length. Returns the result of a plain function."""
        check_launch(kernel, grid, self.name)
        if grid is not None and 0 in grid:
            return None
        with self._device.locked_for_launch():
            return self._launches(kernel, grid, args, meta, work)

    @contextmanager
    def schedule_only(self, run: Collection[str] = ()) -> Iterator[None]:
        """Launches, times and records Triton kernels as usual, but runs only those named in `run`.

        The outputs of the other kernels keep their old values. Use it to draw a step: most of
        sim's own time is arithmetic that no event depends on. Name the kernels whose results the
        host or a time depends on: tokens, tables."""
        before, self._launches.only = self._launches.only, frozenset(run)
        try:
            yield
        finally:
            self._launches.only = before

    def memory_at(self, address: int) -> MemoryRange | None:
        with self._device.lock:
            return self._addresses.range_at(address)

    def copy_bytes(self, source: int, target: int, nbytes: int) -> None:
        """Copies `nbytes` bytes on the current stream. An address that is neither device memory nor
        pinned counts as pageable host memory, unchecked."""
        with self._device.lock:
            self._copies.copy(source, target, nbytes)

    @property
    def has_copy_batch(self) -> bool:
        return True

    def copy_batch(
        self,
        sources: np.ndarray,
        targets: np.ndarray,
        sizes: np.ndarray,
        *,
        any_order: bool = False,
    ) -> None:
        """Copies `sizes[i]` bytes from `sources[i]` to `targets[i]`, for all i: one copy event and
        one launch for each direction among them. With `any_order`, sim still reads in stream order;
        an order that a GPU could break is reported as a race."""
        with self._device.lock:
            self._copies.copy_batch(sources, targets, sizes, any_order)

    def copy_lists(
        self, sources: int, targets: int, sizes: int, count: int, *, any_order: bool = False
    ) -> None:
        lists = (numbers_at(address, count) for address in (sources, targets, sizes))
        self.copy_batch(*lists, any_order=any_order)

    def register_host_memory(self, address: int, nbytes: int) -> None:
        pinning.register(address, nbytes)

    def unregister_host_memory(self, address: int) -> None:
        """Unpins the memory at `address`, once the work in flight is done."""
        with self._device.lock:
            self._device.settle(by=float("inf"))
            pinning.unregister(address)

    def flex_attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        block_mask: BlockMask,
        scale: float | None = None,
    ) -> torch.Tensor:
        """Computes FlexAttention: three launches for a short query, one for a long query."""
        with self._device.lock, self._device.in_sim():
            return self._flex_attention(query, key, value, block_mask, scale)

    @property
    def flex_compilations(self) -> int:
        """The number of kernels that a GPU's compiler would have made for `flex_attention` so far.
        Sim compiles nothing."""
        return len(self._flex_attention.compiled)

    @contextmanager
    def recording(
        self,
        timeline: TimelineData,
        most_calls: int | None = None,
        host: HostTimes | None = None,
        also: frozenset[Also] = frozenset(),
    ) -> Iterator[Callable[[], float]]:
        if (host or host_times()) == "measured":
            gpu = self._device.cost.gpu
            timeline.description = f"sim, modelled on {gpu}, your Python measured"
            with (
                self._measuring_python(also),
                self.recording(timeline, most_calls, "modelled", also) as now,
            ):
                yield now
            return
        before, is_watched = self._device.hazards, self._device.names_lines
        recorder = self._device.start_recording(most_calls)
        began = self._device.now
        self._device.beside.start(also)
        try:
            with watching(self._device):
                yield lambda: self._device.now - began
        finally:
            self._device.beside.stop()
            found = self._device.stop_recording()
            timeline.hazards.extend(found)
            self._device.hazards = [*before, *found] if is_watched else []
            timeline.events.extend(recorder.events)
            timeline.cut_off = recorder.is_full
            timeline.unmeasured = sorted(recorder.unmeasured)

    @contextmanager
    def _measuring_python(self, also: frozenset[Also]) -> Iterator[None]:
        device = self._device
        own_python = OwnPython(device.python_worked, shortest_us=self._shortest_python(also))
        with own_python as device.own_python:
            try:
                yield
            finally:
                device.own_python = None

    def _shortest_python(self, also: frozenset[Also]) -> float:
        """Returns the microseconds that a program's Python must take to count: several times what
        sim and PyTorch themselves take on this machine from one call's end to the next one's
        start, and more of them to be a finding."""
        device, gaps, before = self._device, list[Spent](), self._device.now
        tensor = torch.zeros(1, device=torch.device("sim", 0))
        with watching(device), OwnPython(gaps.append, shortest_us=0.0) as device.own_python:
            for _ in range(TRIED):
                tensor.add_(1)
            device.own_python = None
        device.now = max(before, device.now)
        finding = "host" in also
        least = SHORTEST_FINDING_US if finding else SHORTEST_US
        times = TIMES_OF_A_FINDING if finding else TIMES_OF_OWN
        return max(least, times * median(gap.python_us for gap in gaps))

    @contextmanager
    def proving_races(self) -> Iterator[list[Hazard]]:
        """Yields a list, which holds the races in the block once the block has ended. A recording
        around the block gets the same races."""
        device, found = self._device, list[Hazard]()
        if device.recorder is not None or device.names_lines:
            known = len(device.hazards)
            yield found
            found.extend(device.hazards[known:])
            return
        device.start_recording()
        device.recorder, device.names_lines = None, True
        try:
            with watching(device):
                yield found
        finally:
            found.extend(device.stop_recording())
            device.names_lines = False

    @contextmanager
    def as_cuda(self) -> Iterator[None]:
        """Makes PyTorch run on sim, inside the block, what code places on "cuda".

        Raises RuntimeError if PyTorch's table of device guards can't be found.
        """
        from .as_cuda.meaning import cuda_means_sim

        with cuda_means_sim(self, self._device, self._dispatcher):
            yield

    @contextmanager
    def watching_for_syncs(self) -> Iterator[None]:
        """A context manager that does nothing: every wait goes through the simulated device, which
        checks there if it is forbidden."""
        yield

    @contextmanager
    def watching_for_compiles(self) -> Iterator[None]:
        """A context manager that does nothing: each launch looks up its key, and checks there if a
        compilation is forbidden."""
        yield
