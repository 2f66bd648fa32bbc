"""`torch.distributed`'s collectives on tensors of sim, which gloo runs on the CPU data."""

from __future__ import annotations

from typing import Any

import torch

from debubble.clock.action import SYNC, Action, copy, kernel
from debubble.private import torch as private
from debubble.rules.copies import nbytes_of

from ..clock.device import SimDevice
from ..memory.tape import flat_tensors
from ..tensor import SimTensor
from .computing import all_on_cpu
from .execution import Operation, execute

IN_PLACE = {"allreduce_", "broadcast_", "reduce_", "allreduce_coalesced_"}
"""Collectives that NCCL does not run at all in a group of one process. It runs all others there as
copies."""
OF_ONE_SIDE = {"send", "recv_", "recv_any_source_"}
"""Operators of one side of a message, whose call must not wait: the other process may make its call
later."""


class Collective:
    """Runs one collective of `torch.distributed` (the operators of the namespace "c10d") on tensors
    of sim. The CPU data is complete when the call returns."""

    def __init__(self, device: SimDevice, func: Any) -> None:
        self.device, self.func = device, func
        self.name = private.schema(func).name.partition("::")[2]
        self.returns_tensors = len(private.schema(func).returns) > 1

    def __call__(self, args: tuple, kwargs: dict) -> Any:
        inputs: list[torch.Tensor] = []
        cpu_args = all_on_cpu(args, inputs)
        place = next(i for i, arg in enumerate(args) if isinstance(arg, torch.ScriptObject))
        group = private.distributed.ProcessGroup.unbox(args[place])
        cpu_args[place] = _for_cpu(group).boxed()
        on_device = [tensor for tensor in inputs if isinstance(tensor, SimTensor)]
        self.device.note_unmeasured(f"c10d::{self.name}")
        actions = self._actions(group.size(), on_device)
        self.device.check(self.name, actions)

        def call() -> None:
            out = self.func(*cpu_args, **kwargs)
            private.distributed.Work.unbox(out[1] if self.returns_tensors else out).wait()

        writes = flat_tensors(args[0])
        operation = Operation(
            call,
            lambda _: actions,
            on_device,
            [tensor for tensor in writes if isinstance(tensor, SimTensor)],
            has_result=False,
            waits=SYNC in actions,
        )
        execute(self.device, operation)
        result: torch.futures.Future = torch.futures.Future()
        result.set_result(writes)
        work = private.create_work_from_future(result).boxed()
        return (args[0], work) if self.returns_tensors else work

    def _actions(self, members: int, on_device: list[SimTensor]) -> list[Action]:
        moved = sum(nbytes_of(tensor) for tensor in on_device)
        if self.name == "barrier":
            return [kernel(self.name, moved), SYNC]
        if members > 1:
            return [kernel(self.name, moved)]
        return [] if self.name in IN_PLACE or not moved else [copy("d2d", moved / 2)]


def _for_cpu(group: Any) -> Any:
    """Returns a group of the same members that takes CPU tensors: `group` itself if it does, or a
    new group whose CPU backend is the CUDA backend of `group`."""
    try:
        private.get_backend(group, torch.device("cpu"))
    except RuntimeError:
        backend = private.get_backend(group, torch.device("cuda"))
        group = private.distributed.ProcessGroup(group.rank(), group.size())
        private.set_default_backend(group, private.distributed.ProcessGroup.BackendType.GLOO)
        private.register_backend(
            group, torch.device("cpu"), private.distributed.ProcessGroup.BackendType.GLOO, backend
        )
    return group
