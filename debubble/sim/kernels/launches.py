"""Launches kernels on the CPU data of their tensors, and gives each launch a modelled length."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from debubble.clock.action import Action
from debubble.contract.packages.triton_mode import name_of, unwrapped
from debubble.contract.protocol import Work
from debubble.rules.copies import nbytes_of
from debubble.rules.specialization import key_of

from ..clock.device import SimDevice
from ..memory.address_map import AddressMap
from ..memory.tape import flat_tensors, with_tensors
from ..operators.computing import on_cpu, on_sim
from ..operators.execution import Operation, execute
from ..tensor import SimTensor
from .columns import Columns
from .guard_bands import guarded
from .interpreting import run_kernel
from .kernel_run import KernelRun
from .reach import Reach

MOST_PROGRAMS = (2**31 - 1, 65_535, 65_535)
"""The most programs that a CUDA GPU takes in each dimension of a grid."""


class Launches:
    def __init__(self, device: SimDevice, addresses: AddressMap) -> None:
        self.device, self.addresses = device, addresses
        self.only: frozenset[str] | None = None
        """The names of the Triton kernels that run, or None if all run. Other Triton kernels are
        launched, timed and recorded, but don't run."""

    def __call__(
        self,
        kernel: Callable[..., Any],
        grid: tuple[int, ...] | None,
        args: tuple,
        meta: dict[str, Any],
        work: Work | Callable[[], Work] | None,
    ) -> Any:
        name = name_of(kernel)
        if grid is not None:
            _expect_launchable(grid, name)
            key = key_of(kernel, args, meta, _address)
            self.device.beside.compiles(unwrapped(kernel), name, key)
        inputs: list[torch.Tensor] = []
        cpu_args = on_cpu(args, inputs)
        cpu_meta = {key: on_cpu(value, inputs) for key, value in meta.items()}
        on_device = [tensor for tensor in inputs if type(tensor) is SimTensor]
        on_host = [tensor for tensor in inputs if type(tensor) is not SimTensor]
        _expect_pinned(on_host, name)
        work = work() if callable(work) else work or Work()
        reach = None
        if work.by_address is not None:
            reach = Reach.of_kernel(self.addresses, work.by_address, name)
        action = _action(name, work, inputs, reach)
        written = list(on_device)
        call = (
            partial(kernel, *cpu_args, **cpu_meta)
            if grid is None
            else partial(self._run, written, name, kernel, grid, cpu_args, cpu_meta)
        )
        is_only_on_device = reach is None and not on_host
        if is_only_on_device or (self.device.capturing is not None and grid is None):
            operation = Operation(
                call,
                lambda _: [action],
                reads=on_device,
                writes=written,
                makes_memory=grid is None,
                has_result=grid is None,
                whole=False,
            )
            return on_sim(execute(self.device, operation), self.device)
        self.device.host_works(self.device.cost.op_us)
        columns = Columns.found(flat_tensors([cpu_args, list(cpu_meta.values())]), work.by_address)
        run = KernelRun(
            self.device,
            action,
            call,
            reach or Reach.nothing(),
            on_device,
            on_host,
            lambda: columns is None or columns.are_reachable(self.addresses),
        )
        run.queue(on_device)
        return on_sim(run.result, self.device)

    def _run(
        self,
        written: list[SimTensor],
        name: str,
        kernel: Any,
        grid: tuple[int, ...],
        args: tuple,
        meta: dict[str, Any],
    ) -> None:
        """Runs the kernel if `only` allows it at the time of this run or replay. Removes from
        `written` the tensors that the kernel left unchanged."""
        if self.only is None or name in self.only:
            unchanged = _run_guarded(kernel, grid, args, meta)
            written[:] = [
                tensor
                for tensor in written
                if tensor.data_on_cpu.untyped_storage().data_ptr() not in unchanged
            ]


def _expect_launchable(grid: tuple[int, ...], name: str) -> None:
    """Raises the error that a CUDA driver has for too many programs in a dimension."""
    for dimension, (programs, most) in enumerate(zip(grid, MOST_PROGRAMS, strict=False)):
        if programs > most:
            raise RuntimeError(
                f"Triton Error [CUDA]: invalid argument: {name} has {programs} programs in "
                f"dimension {dimension} of its grid, and a GPU takes at most {most} there"
            )


def _address(tensor: torch.Tensor) -> int:
    """Returns a tensor's address as far as Triton reads it: on a device each allocation begins at a
    multiple of 512 bytes."""
    if type(tensor) is SimTensor:
        return int(tensor.storage_offset()) * tensor.element_size()
    return tensor.data_ptr()


def _expect_pinned(on_host: list[torch.Tensor], name: str) -> None:
    for tensor in on_host:
        if not tensor.is_pinned():
            raise ValueError(
                f"{name} was given a tensor of shape {tuple(tensor.shape)} in pageable host "
                "memory: a kernel reads device memory or pinned memory only"
            )


def _run_guarded(kernel: Any, grid: tuple[int, ...], args: tuple, meta: dict[str, Any]) -> set[int]:
    """Runs a Triton kernel on arguments between guard bands, because it could write anywhere.
    Returns the addresses of the storages that it left unchanged."""

    def call(tensors: list[torch.Tensor]) -> None:
        in_order = iter(tensors)
        guarded_args = with_tensors(args, in_order)
        values = with_tensors(list(meta.values()), in_order)
        run_kernel(kernel, grid, guarded_args, dict(zip(meta, values, strict=True)))

    return guarded(call, flat_tensors([args, list(meta.values())]), name_of(kernel))


def _action(name: str, work: Work, inputs: list[torch.Tensor], reach: Reach | None) -> Action:
    """Returns a launch as a kernel for the cost model. If the kernel uses addresses, its pinned
    arguments and the bytes that it reaches in host memory go over the link."""
    over_link = 0
    if reach is not None:
        pinned = [tensor for tensor in inputs if type(tensor) is not SimTensor]
        inputs = [tensor for tensor in inputs if type(tensor) is SimTensor]
        read = reach.host_sources.nbytes + sum(map(nbytes_of, pinned))
        over_link = max(read, reach.host_targets.nbytes)
    moved = work.bytes
    if moved is None:
        moved = sum(map(nbytes_of, inputs)) + (reach.device_bytes if reach else 0)
    return Action(
        "kernel",
        name,
        moved,
        work.flops,
        "triton",
        work.tensor_cores,
        link_bytes=over_link,
    )
