"""SimGraph: captures work on fixed addresses to a tape, with its Python values, and replays it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import ref

import torch

from debubble.clock.action import kernel
from debubble.contract.capture_error import IS_EMPTY, IS_FULL, NESTED, CaptureError
from debubble.contract.python.garbage import no_collection
from debubble.contract.source_line import SourceLine, source_line
from debubble.timeline.event import Hazard

from ..memory.blocks import Block
from ..memory.illegal_access import IllegalMemoryAccess
from ..memory.tape import Tape, poison
from .device import SimDevice
from .graph_uses import GraphUse, uses_of

RANDOM_STATE = [kernel("fill_", 8)] * 2
"""The two kernels with which PyTorch writes a graph's random seed and offset into device memory
when a capture begins."""


class SimGraph:
    """A simulated CUDA graph: empty until `capture()`, then replayed by `replay()`."""

    def __init__(self, device: SimDevice) -> None:
        self.device = device
        self.pool: Block | None = None
        """A block that stands for the memory pool shared with other graphs: replays count as writes
        to it. None if the pool is unknown."""
        self._tape: Tape | None = None
        self._uses: list[GraphUse] = []
        self._freed: list[Hazard] = []
        self._watchers: list[_InputWatcher] = []
        self._launched: dict[int, int] = {}
        self._ends_at = 0.0
        """The time at which the last replay ends. `_launched` has the number of items of each
        stream that come before that end."""

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Captures the work of the block for replays. Waits for the device first, as CUDA does.

        Memory from before the block keeps its bytes. Memory allocated in the block holds poison
        until the first replay. Raises CaptureError inside another capture, and if the graph already
        holds work."""
        device = self.device
        if device.capturing is not None:
            raise CaptureError(NESTED)
        if self._tape is not None:
            raise CaptureError(IS_FULL)
        device.synchronize()
        device.perform(RANDOM_STATE)
        tape = device.capturing = Tape()
        try:
            with no_collection():
                yield
        finally:
            device.capturing = None
            tape.undo()
            for made in (*tape.blank, *(output for step in tape.steps for output in step.outputs)):
                poison(made)
            self._uses = uses_of(tape)
            if self.pool is not None:
                self._uses.append(GraphUse(ref(self.pool), None, True))
            self._watch_inputs(tape)
        self._tape = tape

    def replay(self) -> None:
        """Runs all captured work as one launch on the current stream, after the graph's last
        replay, even if that ran on another stream. Raises CaptureError if nothing is captured."""
        if self._tape is None:
            raise CaptureError(IS_EMPTY)
        # Reported before the replay, because a replay on freed memory may raise halfway.
        self.device.hazards.extend(self._tape.hazards)
        self.device.hazards.extend(self._freed)
        stream = self.device.streams.current()
        stream.learn(self._launched)
        stream.free_at = max(stream.free_at, self._ends_at)
        try:
            self.device.replay(self._tape.steps, self._uses)
            self._launched, self._ends_at = stream.knowledge(), stream.free_at
        except IllegalMemoryAccess as error:
            if self._freed:
                error.why = str(self._freed_for(error.launched_at))
            raise

    def _freed_for(self, line: SourceLine | None) -> Hazard:
        """Returns the hazard of the freed input that the step at `line` uses, or else of the first
        freed input, whose poison spreads to later results."""
        return next((h for h in self._freed if h.first == line), self._freed[0])

    def _watch_inputs(self, tape: Tape) -> None:
        """Watches the memory that the captured work reads or writes but didn't make: it may be
        freed before a replay."""
        watched = set(tape.made)
        for step in tape.steps:
            for block, data, _, _ in step.inputs:
                address = data.untyped_storage().data_ptr()
                if address not in watched:
                    watched.add(address)
                    watcher = _InputWatcher(data, step.source, self._freed)
                    block.watch(watcher)
                    self._watchers.append(watcher)
            step.inputs.clear()


class _InputWatcher:
    def __init__(
        self, data: torch.Tensor, used_at: SourceLine | None, hazards: list[Hazard]
    ) -> None:
        self.data, self.used_at, self.hazards = data, used_at, hazards

    def freed(self) -> None:
        """Poisons the freed input and notes a hazard. On a GPU another tensor could get this
        memory, so a replay must not find the old values there."""
        poison(self.data)
        self.hazards.append(_input_freed(self.used_at, source_line()))


def _input_freed(used_at: SourceLine | None, freed_at: SourceLine | None) -> Hazard:
    return Hazard(
        "graph_input_freed",
        f"the graph replays {used_at} on memory that was freed at {freed_at}: keep the tensor "
        "alive and copy new values into it",
        used_at,
        freed_at,
    )
