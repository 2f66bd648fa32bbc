"""The simulated device: one host clock, streams, copy engines, and the work in flight on them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import ref

import torch

from debubble.clock.action import Action
from debubble.clock.cost import CostModel
from debubble.clock.launch_queue import LaunchQueue
from debubble.contract import backward_pass
from debubble.contract.capture_error import CaptureError, waits
from debubble.contract.host_syncs import HOST_SYNC, refuse
from debubble.contract.source_line import SourceLine, source_line
from debubble.rules.calls import running_call
from debubble.rules.composition import name_of
from debubble.rules.refusal import refusal
from debubble.timeline.event import HOST_LANE, Hazard

from ..memory import pinning
from ..memory.access_log import Touch
from ..memory.blocks import Block
from ..memory.chosen import Chosen
from ..memory.illegal_access import IllegalMemoryAccess
from ..memory.inflight import InFlight
from ..memory.tape import Step, Tape
from ..tensor import SimTensor
from .beside_calls import BesideCalls
from .device_streams import DeviceStreams
from .graph_uses import GraphUse
from .handing_out import HandingOut
from .own_python import OwnPython, Spent
from .races import Races
from .recorder import Recorder
from .streams import SimStream

WAITS = "your Python waits (this machine)"


class SimDevice:
    """A device that runs work in modelled time. `now` is the host's clock, in microseconds."""

    def __init__(self, cost: CostModel) -> None:
        self.cost = cost
        self.lock = threading.RLock()
        self.now = 0.0
        self.in_flight = InFlight()
        self.capturing: Tape | None = None
        self.recorder: Recorder | None = None
        self.operator: Any = None
        """The operator overload that is running, or None; valid while the lock is held."""
        self.own_python: OwnPython | None = None
        """Measures the program's own Python between calls; None while that costs nothing."""

        self.hazards: list[Hazard] = []
        self.names_lines = False
        """True while races are looked for without a recording: each access then notes its source
        line."""
        self.streams = DeviceStreams(self)
        self.beside = BesideCalls(self, lambda: self.streams.current().number)
        self._launching: int | None = None
        """The identifier of the thread that holds the lock for a launch, or None. The launched
        function may start a backward pass meanwhile."""
        self._queue = LaunchQueue(cost)
        self.races = Races(self._report)
        self.handing_out = HandingOut(self.races)

    # Threads.

    @contextmanager
    def locked_for_launch(self) -> Iterator[None]:
        with self.lock, self.in_sim():
            outer, self._launching = self._launching, threading.get_ident()
            try:
                yield
            finally:
                self._launching = outer

    @contextmanager
    def in_sim(self) -> Iterator[None]:
        """Marks the block as sim's own work, which is not taken for the learner's Python."""
        python = self.own_python
        if python is None:
            yield
            return
        python.ends()
        try:
            yield
        finally:
            python.begins()

    def wait_for_lock(self) -> None:
        """Acquires the lock. Raises RuntimeError if its holder is a launch that waits for this
        thread: the launched function runs a backward pass."""
        running = backward_pass.running_pass()
        while running is not None:
            if running.thread == self._launching:
                raise RuntimeError(
                    "a launch is one kernel, and this function waits for gradients on sim, which "
                    f"are more: call it without launch, at {backward_pass.learners_line()}"
                )
            running = running.outer
        self.lock.acquire()

    # The host.

    def host_works(self, microseconds: float) -> None:
        self.now += microseconds
        if self.now >= self.in_flight.next_done_at:
            self.settle()

    def python_worked(self, spent: Spent) -> None:
        """Moves the host's clock by what the program's own Python took, with an event for it."""
        parts = (("your Python", spent.python_us), (WAITS, spent.waits_us))
        for name, microseconds in parts:
            if microseconds:
                self.note(
                    "python", name, HOST_LANE, self.now, microseconds, spent.line or self.source()
                )
                self.host_works(microseconds)

    def host_waits(self, name: str, until: float, seen: dict[int, int]) -> None:
        """Makes the host wait until the device has reached the time `until`, and records the wait
        as `name`. The host then knows the first `seen[n]` items of each stream n to be done. Raises
        HostSyncError or CaptureError if it may not wait."""
        if self.rules_out_waits:
            self._refuse(f"{name} makes the host wait for the device")
        with self.lock, self.in_sim():
            start = self.now
            self.now = max(self.now, until) + self.cost.sync_us
            self.note(
                "sync",
                name,
                HOST_LANE,
                start,
                self.now - start,
                self.source(pytorch=True),
                **self._asked_by(),
            )
            self.races.host_sees(seen)
            self.settle()

    def host_sees(self, seen: dict[int, int]) -> None:
        """Notes, without a wait, that the host knows the first `seen[n]` items of each stream n to
        be done."""
        self.races.host_sees(seen)

    def synchronize(self) -> None:
        until = max(stream.free_at for stream in self.streams.all)
        self.host_waits(
            "device synchronize", until, {s.number: s.submitted for s in self.streams.all}
        )

    @property
    def rules_out_waits(self) -> bool:
        return self.capturing is not None or HOST_SYNC.is_forbidden()

    def _refuse(self, what: str) -> None:
        if self.capturing is None:
            refuse(what)
        raise CaptureError(waits(what, backward_pass.learners_line()))

    # Work.

    def check(self, name: str, actions: Iterable[Action]) -> None:
        """Raises HostSyncError or CaptureError if `no_host_syncs` or a capture forbids the actions
        of operator `name`. Call it before anything changes."""
        if not backward_pass.UNDER_WAY and self.recorder is None and self.rules_out_waits:
            backward_pass.note_forward(source_line())
        reason = refusal(name, actions) if self.rules_out_waits else None
        if reason:
            self._refuse(reason)

    def perform(
        self,
        actions: Iterable[Action],
        reads: Iterable[SimTensor] = (),
        writes: Iterable[SimTensor] = (),
        whole: bool = True,
        chosen: Chosen | None = None,
    ) -> float:
        """Queues actions on the current stream, and waits for those that synchronise. Returns the
        time at which the last action ends, in microseconds.

        `whole` is True if the actions touch all elements of `reads` and `writes`. `chosen` is the
        part of one of these tensors that they touch; then they touch all elements of the other
        tensors."""
        stream = self.streams.current()
        source = self.source()
        for action in actions:
            if action.kind == "kernel" and self.recorder is None:
                self._launch_unseen(action, stream)
            elif action.kind == "sync":
                self.host_waits(action.name, stream.free_at, stream.knowledge())
            else:
                self._submit(action, stream, source)
        self.races.by_tensors(stream, source, reads, writes, whole, chosen)
        if self.now >= self.in_flight.next_done_at:
            self.settle()
        return stream.free_at

    def replay(self, steps: list[Step], uses: list[GraphUse]) -> None:
        """Runs the steps of a captured graph as one launch on the current stream. `uses` lists
        their accesses to memory that other work may use too."""
        with self.in_sim():
            self._replay(steps, uses)

    def _replay(self, steps: list[Step], uses: list[GraphUse]) -> None:
        start = self.now
        self.now += self.cost.graph_launch_us
        source = self.source()
        launch = self.note(
            "graph_launch", "graph launch", HOST_LANE, start, self.now - start, source
        )
        stream = self.streams.current()
        self.races.by_replay(stream, source, uses, sum([len(step.actions) for step in steps]))
        queued = 0
        for step in steps:
            try:
                if step.under_way is None:
                    self._run_again(step)
                    if step.chosen is not None:
                        self.races.by_index(stream, step.chosen)
                for action in step.actions:
                    self._schedule(action, stream, step.source, launch, in_graph=queued > 0)
                    queued += 1
                if step.under_way is not None:
                    step.under_way(stream.free_at)
            except IllegalMemoryAccess as error:
                error.launched_at = step.source
                raise

    def _run_again(self, step: Step) -> None:
        """Runs one step of a graph's replay. If an upload in flight may still change its inputs,
        saves the step, so that it can run again."""
        if not self.in_flight.uploads:
            step.run()
            return
        tape = self.in_flight.will_write([*step.outputs, *step.writes])
        step.run()
        tape.append(replace(step, drawn=[(tensor, tensor.clone()) for tensor, _ in step.drawn]))

    def _submit(self, action: Action, stream: SimStream, source: SourceLine | None) -> None:
        start = self.now
        self.now = max(self.now, self._queue.has_room_at) + self.cost.call(action)
        asked_by = {}
        if action.kind == "copy" and self.recorder is not None:
            source, asked_by = self.source(pytorch=True), self._asked_by()
        launch = self.note(
            "launch", action.name, HOST_LANE, start, self.now - start, source, **asked_by
        )
        self._schedule(action, stream, source, launch)
        if action.host_blocks:
            self.now = max(self.now, stream.free_at)
            self._lengthen(launch, self.now - start)

    def _launch_unseen(self, action: Action, stream: SimStream) -> None:
        """Queues a kernel as `_submit` does, but outside a recording, where nothing is noted."""
        self.now = max(self.now, self._queue.has_room_at) + self.cost.call(action)
        self._queue.book(action, stream, self.now)

    def _schedule(
        self,
        action: Action,
        stream: SimStream,
        source: SourceLine | None,
        launch: int | None,
        *,
        in_graph: bool = False,
    ) -> None:
        start, duration = self._queue.book(action, stream, self.now, in_graph=in_graph)
        self.note(
            action.kind,
            action.name,
            self.streams.lane_of(stream.number),
            start,
            duration,
            source,
            copy_kind=action.copy_kind,
            nbytes=int(action.nbytes),
            launched_by=launch,
            pageable=action.pageable,
        )

    # Races.

    def _report(self, hazard: Hazard) -> None:
        """Adds a race to the graph being captured, whose every replay repeats it, or else to the
        device's hazards."""
        tape = self.capturing
        (self.hazards if tape is None else tape.hazards).append(hazard)

    def captures(self, step: Step) -> None:
        """Checks the step that was just captured for races with earlier steps, in the order of
        streams and events."""
        stream = self.streams.current()
        stream.submitted += 1
        self.races.in_capture(stream, step.source, step.inputs, step.chosen)

    def touches_host(self, tensor: torch.Tensor, *, writes: bool) -> None:
        """Checks the work queued last for races on a tensor in pinned host memory, which it reads
        or writes."""
        block = pinning.block_at(tensor.data_ptr())
        if block is not None and self.capturing is None:
            self.races.by_copy(block, tensor, self.streams.current(), writes)

    def touches_addresses(
        self, touches: list[Touch], blocks: list[Block], source: SourceLine | None
    ) -> None:
        """Checks the work queued last for races on these address ranges, which lie in `blocks`."""
        self.races.by_address(self.streams.current(), source, touches, blocks)

    def blank(self, data: torch.Tensor) -> SimTensor:
        """Returns a tensor on sim whose data is `data`, uninitialized CPU memory. During a capture
        the memory belongs to the graph."""
        tensor = SimTensor(data)
        if self.capturing is not None:
            self.capturing.make(data)
        self._hand_out(tensor)
        return tensor

    def made(self, tensor: SimTensor) -> SimTensor:
        """Marks `tensor` as a result of the work queued or captured last, and returns it."""
        self.races.made(tensor.block)
        if self.capturing is not None:
            self.capturing.results.append((ref(tensor.block), tensor.data_on_cpu))
        self._hand_out(tensor)
        return tensor

    def _hand_out(self, tensor: SimTensor) -> None:
        """Makes the current stream the owner of a new tensor's block, and reports a race if another
        stream may still use its memory. Skips memory made in a capture, which stays its graph's."""
        if self.capturing is None:
            block, stream = tensor.block, self.streams.current()
            block.owner, block.returns = stream.number, self.handing_out.used_by_others
            if len(self.streams.all) > 1:
                self.handing_out.expect_unused(block, stream, self.source)

    def settle(self, by: float | None = None) -> None:
        """Finishes the copies and kernels on host memory that are done by the host's clock, or by
        the time `by` until which the host will wait. Notes the races found."""
        self.hazards.extend(self.in_flight.settle(self.now if by is None else by))

    # Recording.

    def _asked_by(self) -> dict[str, str | None]:
        """Returns the names of the running PyTorch call and its operator, or {} if no recording
        is running."""
        if self.recorder is None:
            return {}
        operator = None if self.operator is None else name_of(self.operator).partition(".")[0]
        return {"call": running_call(), "operator": operator}

    def source(self, pytorch: bool = False) -> SourceLine | None:
        """Returns the learner's source line, or None if no recording, capture or race check needs
        it. With `pytorch` its inner lines include the innermost line of PyTorch called from there.
        """
        if (
            self.recorder is None
            and self.capturing is None
            and not self.names_lines
            and len(self.streams.all) == 1
            and not self.in_flight.uploads
        ):
            return None
        # learners_line(), without one more call for each operator.
        line = source_line(pytorch=pytorch) or backward_pass.waiting_line()
        if backward_pass.UNDER_WAY:
            return backward_pass.with_forward(line)
        if self.recorder is not None:
            backward_pass.note_forward(line)
        return line

    def start_recording(self, most_calls: int | None = None) -> Recorder:
        """Lets the device finish its work, then returns a recorder that notes all later events."""
        self.hazards = []
        self._let_everything_finish()
        self.streams.start_lanes()
        self.recorder = Recorder(self.now, most_calls)
        return self.recorder

    def stop_recording(self) -> list[Hazard]:
        """Lets the device finish, without an event for it, and returns the recording's races."""
        self._let_everything_finish()
        hazards = self.hazards
        self.recorder, self.hazards = None, []
        return hazards

    def _let_everything_finish(self) -> None:
        self.now = max([self.now, *(stream.free_at for stream in self.streams.all)])
        self.handing_out.all_done()
        self.settle()

    def note(self, *what: Any, **of_device_work: Any) -> int | None:
        """Adds an event to the recording and returns its index, or None without a recording."""
        return None if self.recorder is None else self.recorder.note(*what, **of_device_work)

    def note_unmeasured(self, name: str) -> None:
        """Adds an operator to the recording's list of operators never measured on a GPU."""
        if self.recorder is not None:
            self.recorder.unmeasured.add(name)

    def _lengthen(self, index: int | None, duration: float) -> None:
        if self.recorder is not None:
            self.recorder.lengthen(index, duration)
