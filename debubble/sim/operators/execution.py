"""Executes one operation: its data on the CPU now, its actions on the device in modelled time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from debubble.clock.action import Action

from ..clock.device import SimDevice
from ..memory.chosen import Chosen, is_whole
from ..memory.tape import Step, Tape, Use, flat_tensors
from ..tensor import SimTensor


@dataclass(slots=True)
class Operation:
    """An operator's work on CPU data and on the device. `call` computes on CPU data: it writes in
    place, or returns new memory if `makes_memory` is True.

    `actions` takes the return value of `call`, because an operator on empty tensors launches
    nothing.
    """

    call: Callable[[], Any]
    actions: Callable[[Any], list[Action]]
    reads: Sequence[SimTensor] = ()
    writes: Sequence[SimTensor] = ()
    makes_memory: bool = False
    repeatable: bool = True
    has_result: bool = True
    """False for a kernel, which needn't run during a capture to find the shape of a result."""
    waits: bool = False
    """True if the host has to know the result, so that all work queued before it is done first."""
    whole: bool = True
    """True if the operation touches all elements of its tensors, and doesn't choose by index or
    address."""
    chosen: Chosen | None = None
    """The part of one of its tensors that the operation chooses by an index."""


def execute(device: SimDevice, operation: Operation) -> Any:
    """Runs or captures an operation: its data on the CPU now, its actions on the device in modelled
    time. Returns the result of `call`. Saves the operation if it may have to run again: for a
    graph, or after a copy whose source the host could still overwrite."""
    device.host_works(device.cost.op_us)
    if device.capturing is not None:
        return _capture(device, device.capturing, operation)
    if operation.waits:
        device.settle(by=device.streams.current().free_at)
    journal = None
    if device.in_flight.uploads:
        journal = device.in_flight.will_write([t.data_on_cpu for t in operation.writes])
    out = operation.call()
    actions = operation.actions(out)
    if journal is not None:
        # The uses are left out, since they would keep freed memory from being released.
        journal.append(_step(device, operation, out, actions, []))
    device.perform(actions, operation.reads, operation.writes, operation.whole, operation.chosen)
    return out


def _capture(device: SimDevice, tape: Tape, operation: Operation) -> Any:
    tape.will_write(tensor.data_on_cpu for tensor in operation.writes)
    out = operation.call() if operation.has_result else None
    used = uses(operation.reads, operation.writes, operation.whole, operation.chosen)
    step = _step(device, operation, out, operation.actions(out), used)
    tape.append(step)
    device.captures(step)
    return out


def run(device: SimDevice, step: Step) -> Any:
    """Runs a step that is queued now, and returns its result. Saves it on the tape if an upload in
    flight may make it run again."""
    if device.in_flight.uploads:
        device.in_flight.will_write(step.writes).append(step)
    return step.call()


def capture_later(
    device: SimDevice,
    begin: Callable[[float], None],
    actions: list[Action],
    reads: Sequence[SimTensor],
    writes: Sequence[SimTensor],
) -> None:
    """Captures a copy that stays in flight after a replay's launch. Each replay calls `begin` with
    the time at which the copy ends."""
    assert device.capturing is not None
    step = Step(_nothing, [], actions, device.source(), uses(reads, writes, True), under_way=begin)
    device.capturing.append(step)
    device.captures(step)


def _nothing() -> None:
    """Does nothing when a captured copy's step runs: it moves its bytes only in `begin`, at each
    replay."""


def uses(
    reads: Sequence[SimTensor],
    writes: Sequence[SimTensor],
    whole: bool,
    chosen: Chosen | None = None,
) -> list[Use]:
    return [
        Use(block, tensor.data_on_cpu, wrote, is_whole(block, whole, chosen))
        for tensors, wrote in ((reads, False), (writes, True))
        for tensor in tensors
        for block in (tensor.block,)
    ]


def _step(
    device: SimDevice, operation: Operation, out: Any, actions: list[Action], inputs: list[Use]
) -> Step:
    outputs = flat_tensors(out) if operation.makes_memory else []
    drawn = [] if operation.repeatable else [*outputs, *(t.data_on_cpu for t in operation.writes)]
    return Step(
        operation.call,
        outputs,
        actions,
        device.source(),
        inputs,
        writes=[tensor.data_on_cpu for tensor in operation.writes],
        drawn=[(tensor, tensor.clone()) for tensor in drawn],
        chosen=operation.chosen,
    )
