"""Work on pieces of memory by address: queues it, keeps it in flight until done, or captures it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import ref

import torch

from debubble.clock.action import Action

from ..clock.device import SimDevice
from ..memory.access_log import Touch
from ..memory.arrivals import Download
from ..memory.blocks import Block, DeviceBlock
from ..memory.inflight import Upload
from ..memory.pieces import Pieces
from ..memory.tape import Step, Use, flat_tensors
from ..operators.execution import uses
from ..tensor import SimTensor


class AddressWork:
    """One launch or copy call that reads and writes memory by address. It keeps that memory alive,
    but no SimTensor, because a graph doesn't keep its inputs alive."""

    reads_at_any_time = False
    """True if the work may read as soon as the host queues it, before its stream gets there."""

    def __init__(
        self,
        device: SimDevice,
        action: Action,
        reads: Pieces,
        writes: Pieces,
        read_blocks: Sequence[Block],
        written_blocks: Sequence[Block],
    ) -> None:
        self.device, self.action = device, action
        self.reads, self.writes = reads, writes
        self.source = device.source()
        self._blocks = {ref(block) for block in (*read_blocks, *written_blocks)}
        self._written = [b.all_bytes() for b in written_blocks if isinstance(b, DeviceBlock)]

    def begin(self) -> list[Upload | Download]:
        """Copies the bytes or runs the kernel. Returns the uploads and downloads that stay in
        flight until the work ends."""
        raise NotImplementedError

    def queue(self, tensors: Sequence[SimTensor] = ()) -> None:
        """Queues the work on the current stream, or captures it. `tensors` are the tensors that it
        may read and write besides its pieces."""
        if self.device.capturing is not None:
            self.device.capturing.append(self._captured(tensors))
            return
        self._ends_at(self.device.perform([self.action], tensors, tensors, whole=False))

    def run(self, call: Callable[[], Any], written: Iterable[torch.Tensor] = ()) -> Any:
        """Runs `call` and returns its result. If an upload in flight may make it run again, saves
        it on the tape. `written` are CPU tensors that it may write besides its pieces."""
        in_flight = self.device.in_flight
        if not in_flight.uploads:
            return call()
        tape = in_flight.will_write([*self._written, *written])
        out = call()
        tape.append(Step(call, flat_tensors(out), [], self.source))
        return out

    def _ends_at(self, done_at: float) -> None:
        """Begins the work, which was queued just now and ends at `done_at`, and checks its accesses
        for races."""
        device = self.device
        reads, writes = self.reads, self.writes
        touches = [
            Touch(reads.starts, reads.ends, False, self.reads_at_any_time),
            Touch(writes.starts, writes.ends, True),
        ]
        device.touches_addresses(touches, self._alive(), self.source)
        for work in self.begin():
            device.in_flight.ends_at(work, done_at)
        device.settle()

    def _captured(self, tensors: Sequence[SimTensor]) -> Step:
        inputs = [
            Use(block, block.all_bytes(), None, False)
            for block in self._alive()
            if isinstance(block, DeviceBlock)
        ]
        inputs += uses(tensors, tensors, whole=False)
        return Step(_nothing, [], [self.action], self.source, inputs, under_way=self._ends_at)

    def _alive(self) -> list[Block]:
        return [block for block in (weak() for weak in self._blocks) if block is not None]


def _nothing() -> None:
    """Does nothing when a captured step runs: it moves its bytes only in `_ends_at`, at each
    replay."""
