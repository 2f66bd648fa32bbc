"""The simulated accelerator, as chapters, katas and solutions see it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from ..contract.addresses import MemoryRange
from ..contract.protocol import Work
from ..contract.triton_mode import check_launch
from ..rules.action import Action
from ..timeline.data import TimelineData
from ..timeline.event import Hazard
from .clock.cost import CostModel
from .clock.device import SimDevice
from .clock.graph import SimGraph
from .clock.streams import SimEvent, SimStream
from .flex.flex_attention import FlexAttention
from .kernels.address_copies import AddressCopies
from .kernels.launches import Launches
from .memory import pinning
from .memory.address_map import AddressMap
from .operators import backend
from .operators.execution import Operation, execute
from .operators.host_watch import watching

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


class SimAccelerator:
    name: Final = "sim"
    modelled = True

    def __init__(self, cost: CostModel | None = None) -> None:
        if "OMP_NUM_THREADS" not in os.environ:
            # To wake a second thread costs more than the small tensors of a lesson take.
            torch.set_num_threads(1)
        self._device = SimDevice(cost or CostModel.load())
        self._dispatcher = backend.register(self._device)
        self._flex_attention = FlexAttention(self._device)
        self._addresses = AddressMap()
        self._copies = AddressCopies(self._device, self._addresses)
        self._launches = Launches(self._device, self._addresses)
        self.device = torch.device("sim", 0)
        self.pin_memory = pinning.is_possible()

    @property
    def description(self) -> str:
        return f"sim, modelled on {self._device.cost.gpu}"

    def stream(self) -> SimStream:
        return self._device.new_stream()

    def current_stream(self) -> SimStream:
        return self._device.current_stream()

    def event(self) -> SimEvent:
        return SimEvent(self._device)

    def graph(self) -> SimGraph:
        return SimGraph(self._device)

    def synchronize(self) -> None:
        self._device.synchronize()

    def sleep(self, milliseconds: float) -> None:
        """Keeps the current stream busy for that long with one kernel, and returns at once."""
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
        """Runs a kernel on the CPU data, as one launch of modelled length."""
        check_launch(kernel, grid, self.name)
        if grid is not None and 0 in grid:
            return None
        with self._device.locked_for_launch():
            return self._launches(kernel, grid, args, meta, work)

    @contextmanager
    def schedule_only(self, run: Collection[str] = ()) -> Iterator[None]:
        """Triton kernels are launched, timed and recorded as ever, and only those that `run` names
        are run: what another one would write stays as it was. For pictures of a step: most of
        sim's own time is arithmetic on which no event depends. Name those that make what the host
        or a time depends on: tokens, tables."""
        before, self._launches.only = self._launches.only, frozenset(run)
        try:
            yield
        finally:
            self._launches.only = before

    def memory_at(self, address: int) -> MemoryRange | None:
        with self._device.lock:
            return self._addresses.range_at(address)

    def copy_bytes(self, source: int, target: int, nbytes: int) -> None:
        """What is neither device memory nor pinned counts as pageable host memory, unchecked."""
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
        """One copy event and one launch for each direction that there is. In any order bytes are
        still read in the stream's: that it need not be so is a race where it matters."""
        with self._device.lock:
            self._copies.copy_batch(sources, targets, sizes, any_order)

    def register_host_memory(self, address: int, nbytes: int) -> None:
        pinning.register(address, nbytes)

    def unregister_host_memory(self, address: int) -> None:
        """What is under way there is let finish first."""
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
        """Three launches for a short query, one for a long one."""
        with self._device.lock:
            return self._flex_attention(query, key, value, block_mask, scale)

    @property
    def flex_compilations(self) -> int:
        """How many kernels a compiler would have made by now; here nothing is compiled."""
        return len(self._flex_attention.compiled)

    @contextmanager
    def recording(
        self, timeline: TimelineData, most_calls: int | None = None
    ) -> Iterator[Callable[[], float]]:
        before, is_watched = self._device.hazards, self._device.names_lines
        recorder = self._device.start_recording(most_calls)
        began = self._device.now
        try:
            with watching(self._device):
                yield lambda: self._device.now - began
        finally:
            found = self._device.stop_recording()
            timeline.hazards.extend(found)
            self._device.hazards = [*before, *found] if is_watched else []
            timeline.events.extend(recorder.events)
            timeline.cut_off = recorder.is_full
            timeline.unmeasured = sorted(recorder.unmeasured)

    @contextmanager
    def proving_races(self) -> Iterator[list[Hazard]]:
        """Gives the races of the block once it has ended. A recording around it proves them too."""
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
        """A block in which code that says "cuda" runs here. RuntimeError where PyTorch can't be
        told so."""
        from .as_cuda.meaning import cuda_means_sim

        with cuda_means_sim(self, self._device, self._dispatcher):
            yield

    @contextmanager
    def watching_for_syncs(self) -> Iterator[None]:
        """Nothing to install: every wait passes through the simulated device, which asks."""
        yield
