"""Two accesses to one memory, on two streams, with nothing that orders them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

import torch

from debubble.contract.source_line import SourceLine
from debubble.timeline.event import Hazard

from ..memory.access_log import AccessLog, Knowledge, Touch, range_of, touches_of
from ..memory.blocks import Access, Block, Past
from ..memory.chosen import Chosen, is_whole
from ..memory.pieces import span_of
from ..memory.tape import Tape

if TYPE_CHECKING:
    from ..tensor import SimTensor
    from .streams import SimStream


class GraphUse(NamedTuple):
    """What each replay of a graph does to an allocation that somebody else may use."""

    block: ref[Block]
    data: torch.Tensor | None
    """All that it looks at; None if it chooses some of it."""
    wrote: bool


def uses_of(tape: Tape) -> list[GraphUse]:
    """Returns each use of the allocations that a captured tape touches, once. What was captured
    was never queued, so they forget it."""
    uses: dict[tuple[object, ...], GraphUse] = {}

    def add(block: Block, data: torch.Tensor, wrote: bool, whole: bool) -> None:
        block.forget_accesses()
        key = (data.data_ptr(), data.shape, data.stride()) if whole else ()
        use = GraphUse(ref(block), data if whole else None, wrote)
        uses.setdefault((id(block), wrote, *key), use)

    for step in tape.steps:
        for block, data, wrote, whole in step.inputs:
            if wrote is not None:
                add(block, data, wrote, whole)
    for result, data in tape.results:
        if (made := result()) is not None:
            add(made, data, True, True)
    return list(uses.values())


class Races:
    """Accesses by tensors are compared by whole allocations. Those by address are compared by the
    bytes they touch, with each other and with tensors that say which bytes they are about."""

    def __init__(self, report: Callable[[Hazard], None]) -> None:
        self.report = report
        self.last_access: Access | None = None
        self._host_seen: dict[int, int] = {}
        self._log = AccessLog()

    def host_sees(self, seen: dict[int, int]) -> None:
        """The host knows that so much of each stream's work is done."""
        for number, count in seen.items():
            self._host_seen[number] = max(count, self._host_seen.get(number, 0))
        if len(self._log):
            self._log.host_saw(self._known_to_host)

    def by_tensors(
        self,
        stream: SimStream,
        source: SourceLine | None,
        reads: Iterable[SimTensor],
        writes: Iterable[SimTensor],
        whole: bool,
        chosen: Chosen | None = None,
    ) -> None:
        """`whole`: they touch all of what these tensors look at, and don't choose some of it;
        `chosen` is what they choose of one of them."""
        number = stream.number
        access = self.last_access = Access(number, stream.submitted, source)
        touches: list[Touch] = []
        for tensor in writes:
            block = tensor.block
            self._write(block, access, stream)
            if block.owner != number:
                block.used_by(access)
            if whole or is_whole(block, whole, chosen):
                self._note(block, Past(access, tensor.data_on_cpu, True), touches)
        for tensor in reads:
            block = tensor.block
            written, read = block.last_write, block.last_read
            if written is not None and written[0] != number:
                self.expect_before(written, stream, source, "written")
            if read is not None and read[0] != number:
                self._keep(block, read, stream)
            block.last_read = access
            if block.owner != number:
                block.used_by(access)
            if whole or is_whole(block, whole, chosen):
                self._note(block, Past(access, tensor.data_on_cpu, False), touches)
        if touches:
            self._add(stream, access, touches, by_address=False)
        if chosen is not None:
            self.by_index(stream, chosen)

    def by_index(self, stream: SimStream, chosen: Chosen) -> None:
        """What was queued last touches part of an allocation."""
        access, block = self.last_access, chosen.block()
        if access is None or block is None:
            return
        kept = chosen if block.log is not None else chosen.kept()
        touches: list[Touch] = []
        if kept is not None:
            self._note(block, Past(access, kept, chosen.wrote), touches)
        if touches:
            self._add(stream, access, touches, by_address=False)

    def by_replay(
        self, stream: SimStream, source: SourceLine | None, uses: list[GraphUse], launches: int
    ) -> None:
        """A graph of so many launches is about to be queued. It is one access: nobody waits for
        a part of it."""
        access = self.last_access = Access(stream.number, stream.submitted + launches, source)
        touches: list[Touch] = []
        reported: set[tuple[Access, str]] = set()
        for use in uses:
            block = use.block()
            if block is None:
                continue
            for conflict in self._conflicts(block, use.wrote, stream):
                if conflict not in reported:
                    reported.add(conflict)
                    self._report(conflict[0], stream, source, conflict[1], UNORDERED)
            if use.wrote:
                self._wrote(block, access)
            else:
                self._read(block, access, stream)
            if block.owner != access.stream:
                block.used_by(access)
            if use.data is not None:
                self._note(block, Past(access, use.data, use.wrote), touches)
        if touches:
            self._add(stream, access, touches, by_address=False)

    def in_capture(
        self,
        stream: SimStream,
        source: SourceLine | None,
        reads: Iterable[SimTensor],
        writes: Iterable[SimTensor],
    ) -> None:
        """What is captured is in the order of the streams and events of its capture."""
        access = self.last_access = Access(stream.number, stream.submitted, source)
        for tensor in writes:
            self._write(tensor.block, access, stream)
        for tensor in reads:
            for conflict, verb in self._conflicts(tensor.block, False, stream):
                self._report(conflict, stream, source, verb, UNORDERED)
            self._read(tensor.block, access, stream)

    def _write(self, block: Block, access: Access, stream: SimStream) -> None:
        number, written, read = access[0], block.last_write, block.last_read
        if (
            (written is not None and written[0] != number)
            or (read is not None and read[0] != number)
            or block.other_reads
        ):
            for conflict, verb in self._conflicts(block, True, stream):
                self._report(conflict, stream, access.source, verb, UNORDERED)
        self._wrote(block, access)

    def _wrote(self, block: Block, access: Access) -> None:
        """Reads from before are in order with all that is in order with the write."""
        block.last_write = access
        block.last_read = block.other_reads = None

    def _read(self, block: Block, access: Access, stream: SimStream) -> None:
        if block.last_read is not None and block.last_read.stream != access.stream:
            self._keep(block, block.last_read, stream)
        block.last_read = access

    def _keep(self, block: Block, read: Access, stream: SimStream) -> None:
        """Remembers a read of another stream, unless a read on this one comes after it."""
        if not self._is_known(read, stream):
            block.other_reads = {**(block.other_reads or {}), read.stream: read}

    def _conflicts(
        self, block: Block, writes: bool, stream: SimStream
    ) -> Iterator[tuple[Access, str]]:
        """Yields the last accesses to a block that nothing orders before this stream's next."""
        if block.last_write is not None and not self._is_known(block.last_write, stream):
            yield block.last_write, "written"
        if not writes:
            return
        if block.last_read is not None and not self._is_known(block.last_read, stream):
            yield block.last_read, "read"
        for read in (block.other_reads or {}).values():
            if not self._is_known(read, stream):
                yield read, "read"

    def by_copy(self, block: Block, host: torch.Tensor, stream: SimStream, wrote: bool) -> None:
        """What was queued last reads or writes pinned host memory as well. Accesses to it are
        compared by their bytes: parts of one buffer are used for many copies."""
        access, (start, end) = self.last_access, span_of(host)
        assert access is not None
        for past in block.past or ():
            if past.access.stream != access.stream and (wrote or past.wrote):
                first, behind = range_of(past)
                if first < end and behind > start and not self._is_known(past.access, stream):
                    verb = "written" if past.wrote else "read"
                    self._report(past.access, stream, access.source, verb, UNORDERED)
        touches: list[Touch] = []
        self._note(block, Past(access, (start, end), wrote), touches)
        self._add(stream, access, touches, by_address=False)

    def made(self, block: Block) -> None:
        """It holds a result of what was queued last."""
        block.last_write = block.made_by = self.last_access

    def by_address(
        self,
        stream: SimStream,
        source: SourceLine | None,
        touches: list[Touch],
        blocks: Iterable[Block],
    ) -> None:
        access = Access(stream.number, stream.submitted, source)
        for block in blocks:
            self._log.follow(block)
            block.used_by(access)
        self._add(stream, access, touches, by_address=True)

    def _note(self, block: Block, past: Past, touches: list[Touch]) -> None:
        if block.log is not None:
            touches += touches_of(past)
        elif not block.past:
            block.past = [past]
        elif _is_again(past, block.past[-1]):
            block.past[-1] = past
        else:
            block.past.append(past)
            if len(block.past) > MOST_PAST:
                block.past = self._latest(block.past)

    def _add(
        self, stream: SimStream, access: Access, touches: list[Touch], *, by_address: bool
    ) -> None:
        known = self.known_to(stream), self._known_to_host
        conflicts = self._log.add(access, touches, *known, by_address=by_address)
        # A loop leaves an access of each turn; a line is named once.
        lines = {(c.access.stream, c.access.source, c.wrote, c.at_any_time): c for c in conflicts}
        for conflict in lines.values():
            verb = "written" if conflict.wrote else "read"
            why = AT_ANY_TIME if conflict.at_any_time else UNORDERED
            self._report(conflict.access, stream, access.source, verb, why)

    def _latest(self, pasts: list[Past]) -> list[Past]:
        """Of each range, stream and verb the last; none that the host has seen, since those are in
        order with anything to come; at most half of what there may be."""
        last: dict[tuple[object, int, bool], Past] = {}
        for past in pasts:
            stream, order, _ = past.access
            if order > self._known_to_host(stream):
                is_part = not isinstance(past.where, (tuple, torch.Tensor))
                key = past.where if is_part else range_of(past), stream, past.wrote
                last.pop(key, None)
                last[key] = past
        return list(last.values())[-MOST_PAST // 2 :]

    def known_to(self, stream: SimStream) -> Knowledge:
        """How much of each stream's work comes before what is queued on this one from now on."""

        def known(number: int) -> int:
            if number == stream.number:
                return stream.submitted
            return max(stream.seen.get(number, 0), self._known_to_host(number))

        return known

    def _known_to_host(self, number: int) -> int:
        return self._host_seen.get(number, 0)

    def _is_known(self, access: Access, stream: SimStream) -> bool:
        """True if it comes before what is queued on `stream` now."""
        number = access.stream
        known = stream.seen.get(number, 0), self._host_seen.get(number, 0)
        return number == stream.number or max(known) >= access.order

    def expect_before(
        self, access: Access | None, stream: SimStream, source: SourceLine | None, verb: str
    ) -> None:
        """Reports `access` unless it comes before what is queued on `stream` now."""
        if access is not None and not self._is_known(access, stream):
            self._report(access, stream, source, verb, UNORDERED)

    def _report(
        self,
        access: Access,
        stream: SimStream,
        source: SourceLine | None,
        verb: str,
        why: str,
    ) -> None:
        lane_of = stream.sim.lane_of
        message = (
            f"{source} uses on {lane_of(stream.number)} what is {verb} on {lane_of(access.stream)} "
            f"by {access.source or 'earlier work'}, and {why}"
        )
        self.report(Hazard("unordered_streams", message, access.source, source))


def _is_again(past: Past, before: Past) -> bool:
    """Whether it does to the same bytes, on the same stream, what was done last: a weight is read
    by each step, and this is quicker than to ask where it lies."""
    if past.wrote != before.wrote or past.access.stream != before.access.stream:
        return False
    where, there = past.where, before.where
    if not isinstance(where, torch.Tensor) or not isinstance(there, torch.Tensor):
        return where == there
    return where is there or (
        where.data_ptr() == there.data_ptr()
        and where.shape == there.shape
        and where.stride() == there.stride()
        and where.dtype == there.dtype
    )


UNORDERED = "nothing orders the two: record an event behind the one and make the other wait for it"
AT_ANY_TIME = (
    "may read it before its stream gets there: copy in the stream's order, or have the host know "
    "that the other is done"
)
MOST_PAST = 64
"""Accesses that are remembered of an allocation while it isn't used by address."""
