"""Two accesses to one memory, on two streams, with nothing that orders them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from debubble.contract.source_line import SourceLine
from debubble.timeline.event import Hazard

from ..memory.access_log import AccessLog, Knowledge, Touch, range_of, touches_of
from ..memory.blocks import Access, Block, Past, Span
from ..memory.pieces import span_of

if TYPE_CHECKING:
    import torch

    from ..tensor import SimTensor
    from .streams import SimStream


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
    ) -> None:
        """`whole`: they touch all of what these tensors look at, and don't choose some of it."""
        number = stream.number
        access = self.last_access = Access(number, stream.submitted, source)
        touches: list[Touch] = []
        for tensor in writes:
            block = tensor.block
            self.expect_before(block.last_write, stream, source, "written")
            self.expect_before(block.last_read, stream, source, "read")
            block.last_write = access
            if block.owner != number:
                block.used_by(access)
            if whole:
                self._note(block, Past(access, tensor.data_on_cpu, True), touches)
        for tensor in reads:
            block = tensor.block
            written = block.last_write
            if written is not None and written[0] != number:
                self.expect_before(written, stream, source, "written")
            block.last_read = access
            if block.owner != number:
                block.used_by(access)
            if whole:
                self._note(block, Past(access, tensor.data_on_cpu, False), touches)
        if touches:
            self._add(stream, access, touches, by_address=False)

    def by_copy(self, block: Block, host: torch.Tensor, stream: SimStream, wrote: bool) -> None:
        """What was queued last reads or writes pinned host memory as well."""
        access = self.last_access
        assert access is not None
        touches: list[Touch] = []
        self._note(block, Past(access, span_of(host), wrote), touches)
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
        for conflict in self._log.add(access, touches, *known, by_address=by_address):
            verb = "written" if conflict.wrote else "read"
            why = AT_ANY_TIME if conflict.at_any_time else UNORDERED
            self._report(conflict.access, stream, access.source, verb, why)

    def _latest(self, pasts: list[Past]) -> list[Past]:
        """Of each range, stream and verb the last; none that the host has seen, since those are in
        order with anything to come; at most half of what there may be."""
        last: dict[tuple[Span, int, bool], Past] = {}
        for past in pasts:
            stream, order, _ = past.access
            if order > self._known_to_host(stream):
                key = range_of(past), stream, past.wrote
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

    def expect_before(
        self, access: Access | None, stream: SimStream, source: SourceLine | None, verb: str
    ) -> None:
        """Reports `access` unless it comes before what is queued on `stream` now."""
        if access is None or access.stream == stream.number:
            return
        known = max(stream.seen.get(access.stream, 0), self._host_seen.get(access.stream, 0))
        if known < access.order:
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
    if isinstance(where, tuple) or isinstance(there, tuple):
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
