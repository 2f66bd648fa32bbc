"""The simulated accelerator, as chapters, katas and solutions see it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..accelerator.protocol import Work
from ..rules.action import Action
from ..rules.copies import nbytes_of
from ..timeline import Timeline
from . import backend, pinning
from .computing import on_cpu, on_sim
from .cost import CostModel
from .device import SimDevice
from .execution import Operation, execute
from .flex_attention import FlexAttention
from .graph import SimGraph
from .guard_bands import guarded
from .host_watch import HostWatch
from .streams import SimEvent, SimStream
from .tape import flat_tensors, with_tensors
from .tensor import SimTensor

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


class SimAccelerator:
    name = "sim"
    modelled = True

    def __init__(self, cost: CostModel | None = None) -> None:
        if "OMP_NUM_THREADS" not in os.environ:
            # To wake a second thread costs more than the small tensors of a lesson take.
            torch.set_num_threads(1)
        self._device = SimDevice(cost or CostModel.load())
        backend.register(self._device)
        self._flex_attention = FlexAttention(self._device)
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
        kernel: Callable[..., Any],
        grid: tuple[int, ...] | None,
        *args: Any,
        work: Work | Callable[[], Work] | None = None,
        **meta: Any,
    ) -> Any:
        """Runs a kernel on the CPU data, as one launch of modelled length."""
        if grid is not None and 0 in grid:
            return None
        inputs: list[torch.Tensor] = []
        cpu_args = on_cpu(args, inputs)
        cpu_meta = {name: on_cpu(value, inputs) for name, value in meta.items()}
        for tensor in inputs:
            if type(tensor) is not SimTensor and not tensor.is_pinned():
                raise ValueError(
                    f"{_name_of(kernel)} was given a tensor of shape {tuple(tensor.shape)} in "
                    "pageable host memory: a kernel reads device memory or pinned memory only"
                )
        on_device = [tensor for tensor in inputs if type(tensor) is SimTensor]
        call = partial(kernel, *cpu_args, **cpu_meta)
        if grid is not None:
            call = partial(_run_guarded, kernel, grid, cpu_args, cpu_meta)
        action = _kernel(kernel, work() if callable(work) else work or Work(), inputs)
        operation = Operation(
            call,
            lambda _: [action],
            reads=on_device,
            writes=on_device,
            makes_memory=grid is None,
            has_result=grid is None,
        )
        with self._device.lock:
            return on_sim(execute(self._device, operation), self._device)

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
    def recording(self, timeline: Timeline, most_calls: int | None = None) -> Iterator[None]:
        self._device.start_recording(most_calls)
        try:
            with HostWatch(self._device):
                yield
        finally:
            recorder, hazards = self._device.stop_recording()
            timeline.events.extend(recorder.events)
            timeline.hazards.extend(hazards)
            timeline.cut_off = recorder.is_full

    @contextmanager
    def watching_for_syncs(self) -> Iterator[None]:
        """Nothing to install: every wait passes through the simulated device, which asks."""
        yield


def _run_guarded(kernel: Any, grid: tuple[int, ...], args: tuple, meta: dict[str, Any]) -> None:
    """A Triton kernel, which could write anywhere."""

    def call(tensors: list[torch.Tensor]) -> None:
        in_order = iter(tensors)
        guarded_args = with_tensors(args, in_order)
        values = with_tensors(list(meta.values()), in_order)
        kernel[grid](*guarded_args, **dict(zip(meta, values, strict=True)))

    guarded(call, flat_tensors([args, list(meta.values())]), _name_of(kernel))


def _kernel(kernel: Any, work: Work, inputs: list[torch.Tensor]) -> Action:
    moved = sum(map(nbytes_of, inputs)) if work.bytes is None else work.bytes
    return Action("kernel", _name_of(kernel), moved, work.flops, "triton", work.tensor_cores)


def _name_of(kernel: Any) -> str:
    return getattr(kernel, "__name__", None) or getattr(
        getattr(kernel, "fn", None), "__name__", "kernel"
    )
