"""Races: two accesses to the same memory on two streams, with nothing that orders them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch

from debubble.contract.source_line import SourceLine
from debubble.timeline.event import Hazard, HazardKind

from ..memory.access_log import AccessLog, Touch, range_of, touches_of
from ..memory.blocks import Access, Block, Past
from ..memory.chosen import Chosen
from ..memory.pieces import share_a_byte, span_of
from ..memory.tape import Use
from ..tensor import SimTensor
from .graph_uses import GraphUse
from .order import Order
from .streams import SimStream
from .touched import Where, is_again, is_all_of, ranges, touched


class Races:
    """Finds the races of a device, by comparing the bytes that accesses touch.

    A kernel doesn't say which bytes of its tensors it touches. It is compared with other kernels
    and with accesses to a whole allocation, and never with accesses by address.
    """

    def __init__(self, report: Callable[[Hazard], None]) -> None:
        self.report = report
        self.last_access: Access | None = None
        self.order = Order()
        self._log = AccessLog()
        self._said: set[Access] = set()
        """The earlier accesses with which a race of `_said_of` was already reported."""
        self._said_of: Access | None = None
        """The access whose races are being reported, so that each is reported once."""

    def host_sees(self, seen: dict[int, int]) -> None:
        """Notes that the host knows the first `seen[n]` items of each stream n to be done."""
        self.order.host_sees(seen)
        if len(self._log):
            self._log.host_saw(self.order.known_to_host)

    def by_tensors(
        self,
        stream: SimStream,
        source: SourceLine | None,
        reads: Iterable[SimTensor],
        writes: Iterable[SimTensor],
        whole: bool,
        chosen: Chosen | None = None,
    ) -> None:
        """Reports the races of an operator's accesses to its tensors, and notes the accesses.

        `whole` is True if the operator touches all elements of these tensors, and doesn't choose
        some of them. `chosen` is the part that it chooses of one of them.
        """
        number = stream.number
        access = Access(number, stream.submitted, source, whole or chosen is not None)
        self.last_access = access
        touches: list[Touch] = []
        known = self.order.is_known
        taken: list[SimTensor] = []
        for tensors, wrote in ((writes, True), (reads, False)):
            for tensor in tensors:
                block = tensor.block
                if block.replays and tensor.taken:
                    taken.append(tensor)
                where = tensor.data_on_cpu if whole else touched(tensor, chosen)
                written, read = block.last_write, block.last_read
                if (
                    block.others is not None
                    or (written is not None and written[0] != number and not known(written, stream))
                    or (read is not None and read[0] != number and not known(read, stream))
                ):
                    self._meet(block, access, stream, where, wrote)
                elif wrote:
                    block.last_write, block.last_read = access, None
                else:
                    block.last_read = access
                if block.owner != number:
                    block.used_by(access)
                if where is not None:
                    self._note(block, access, where, wrote, touches)
        if touches:
            self._add(stream, access, touches, by_address=False)
        if taken:
            self._expect_one_replay(taken, source)

    def _expect_one_replay(self, views: list[SimTensor], source: SourceLine | None) -> None:
        """Reports an operator on two views of the same bytes of a graph's output that were made
        after different replays: the later replay wrote over what the earlier view was made for. A
        view that is read alone after a later replay is meant to see what that replay wrote."""
        earlier: dict[tuple, SimTensor] = {}
        for view in views:
            data = view.data_on_cpu
            where = data.data_ptr(), data.shape, data.stride()
            other = earlier.setdefault(where, view)
            assert view.taken is not None and other.taken is not None
            if other.taken[0] != view.taken[0]:
                _, first = min(other.taken, view.taken, key=lambda taken: taken[0])
                self.report(Hazard(OVERWRITTEN, _overwritten(first, source), first, source))
                return
        for view in views:
            if view.taken and view.taken[0] != view.block.replays:
                view.taken = None

    def by_index(self, stream: SimStream, chosen: Chosen) -> None:
        """Reports the races of a replay on a part of an allocation that one of its steps chooses by
        an index, and notes the access."""
        access, block = self.last_access, chosen.block()
        if access is None or block is None:
            return
        touches: list[Touch] = []
        self._meet(block, access, stream, chosen, chosen.wrote)
        self._note(block, access, chosen, chosen.wrote, touches)
        if touches:
            self._add(stream, access, touches, by_address=False)

    def by_replay(
        self, stream: SimStream, source: SourceLine | None, uses: list[GraphUse], launches: int
    ) -> None:
        """Reports the races of a graph's replay of `launches` launches, which is about to be
        queued, and notes its accesses. The replay counts as one access, because nothing can wait
        for a part of it."""
        access = self.last_access = Access(stream.number, stream.submitted + launches, source)
        touches: list[Touch] = []
        for use in uses:
            block = use.block()
            if block is None:
                continue
            said = access if use.data is not None else access._replace(says_where=False)
            self._meet(block, said, stream, use.data, use.wrote)
            if block.owner != access.stream:
                block.used_by(access)
            if use.wrote and block.replays is not None:
                block.replays += 1
            if use.data is not None:
                self._note(block, access, use.data, use.wrote, touches)
        if touches:
            self._add(stream, access, touches, by_address=False)

    def in_capture(
        self,
        stream: SimStream,
        source: SourceLine | None,
        uses: Iterable[Use],
        chosen: Chosen | None,
    ) -> None:
        """Reports the races between captured work and earlier work of the capture, in the order of
        its streams and events."""
        touches: list[Touch] = []
        says_where = chosen is not None or all(use.whole for use in uses)
        access = self.last_access = Access(stream.number, stream.submitted, source, says_where)
        for block, data, wrote, whole in uses:
            if wrote is None:
                continue
            where = data if whole else chosen
            self._meet(block, access, stream, where, wrote)
            if where is not None and block.log is None:
                self._note(block, access, where, wrote, touches)

    def _meet(
        self, block: Block, access: Access, stream: SimStream, where: Where | None, wrote: bool
    ) -> None:
        """Reports a race with each earlier access to the same bytes of the block that nothing
        orders before this one, if one of the two writes. Then notes this access.

        An access ordered after the last write is also ordered after everything before that write.
        """
        unordered = {
            key: other for key, other in earlier(block) if not self.order.is_known(other, stream)
        }
        if self._said_of is not self.last_access:
            self._said_of, self._said = self.last_access, set()
        for (_, did_write), other in sorted(unordered.items(), key=lambda item: not item[0][1]):
            matters = (wrote or did_write) and other not in self._said
            if matters and self._share_a_byte(block, other, did_write, where):
                self._said.add(other)
                verb = "written" if did_write else "read"
                if other is block.left_by:
                    self._report_left(other, stream, access.source)
                else:
                    self._report(other, stream, access.source, verb, UNORDERED)
        if wrote:
            block.last_write, block.last_read = access, None
        else:
            block.last_read = access
            writes = {key: write for key, write in (block.others or {}).items() if key[1]}
            unordered = {k: read for k, read in unordered.items() if not k[1]} | writes
        block.others = unordered or None

    def _share_a_byte(
        self, block: Block, other: Access, did_write: bool, where: Where | None
    ) -> bool:
        """Returns True if this access and `other` may touch the same byte of the block. A kernel,
        which doesn't say what it touches, overlaps other kernels and accesses to the whole block.
        """
        if where is None and not other.says_where:
            return True
        if other is block.made_by or other is block.left_by:
            return True
        if block.log is not None:
            theirs = [self._log.ranges_by(other, did_write)]
        else:
            theirs = [
                ranges(past.where)
                for past in block.past or ()
                if past.wrote == did_write and past.access[:2] == other[:2]
            ]
        if where is None:
            return any(is_all_of(block, their) for their in theirs)
        mine = ranges(where)
        if not other.says_where:
            return is_all_of(block, mine)
        return any(share_a_byte(mine, their) for their in theirs)

    def by_copy(self, block: Block, host: torch.Tensor, stream: SimStream, wrote: bool) -> None:
        """Reports the races of the work queued last on pinned host memory, which it reads or writes
        too. Its accesses are compared by their bytes, because many copies use parts of one
        buffer."""
        access, (start, end) = self.last_access, span_of(host)
        assert access is not None
        for past in block.past or ():
            if past.access.stream != access.stream and (wrote or past.wrote):
                first, behind = range_of(past)
                if first < end and behind > start and not self.order.is_known(past.access, stream):
                    verb = "written" if past.wrote else "read"
                    self._report(past.access, stream, access.source, verb, UNORDERED)
        touches: list[Touch] = []
        self._note(block, access, (start, end), wrote, touches)
        self._add(stream, access, touches, by_address=False)

    def made(self, block: Block) -> None:
        """Notes that the block holds a result of the work that was queued last."""
        block.last_write = block.made_by = self.last_access

    def lies_where(self, block: Block, access: Access | None) -> None:
        """Notes that a new block may lie in freed memory, whose last access is `access`. Work of
        the block's own stream comes after that access; work of another stream is a race if nothing
        orders it."""
        if access is not None and block.last_write is None:
            block.last_write = block.left_by = access

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

    def _note(
        self, block: Block, access: Access, where: Where, wrote: bool, touches: list[Touch]
    ) -> None:
        """Remembers the bytes that an access touches, for comparison with later accesses."""
        if isinstance(where, Chosen) and block.log is None:
            part = where.kept()
            if part is None:
                return
            where = part
        past, pasts = Past(access, where, wrote), block.past
        if block.log is not None:
            touches += touches_of(past)
        elif not pasts:
            block.past = [past]
        elif is_again(past, pasts[-1]):
            pasts[-1] = past
        elif len(pasts) > 1 and is_again(past, pasts[-2]):  # What is updated in place.
            pasts[-2:] = pasts[-1], past
        else:
            pasts.append(past)
            if len(pasts) > MOST_PAST:
                block.past = self._latest(pasts)

    def _add(
        self, stream: SimStream, access: Access, touches: list[Touch], *, by_address: bool
    ) -> None:
        known = self.order.known_to(stream), self.order.known_to_host
        conflicts = self._log.add(access, touches, *known, by_address=by_address)
        # A loop leaves one access for each iteration, but each line is reported once.
        lines = {(c.access.stream, c.access.source, c.wrote, c.at_any_time): c for c in conflicts}
        for conflict in lines.values():
            verb = "written" if conflict.wrote else "read"
            why = AT_ANY_TIME if conflict.at_any_time else UNORDERED
            self._report(conflict.access, stream, access.source, verb, why)

    def _latest(self, pasts: list[Past]) -> list[Past]:
        """Returns the last access for each range, stream and verb, at most MOST_PAST / 2 of them.

        Drops accesses that the host knows to be done, because all later work comes after them."""
        last: dict[tuple[object, int, bool], Past] = {}
        for past in pasts:
            stream, order, *_ = past.access
            if order > self.order.known_to_host(stream):
                is_part = not isinstance(past.where, (tuple, torch.Tensor))
                key = past.where if is_part else range_of(past), stream, past.wrote
                last.pop(key, None)
                last[key] = past
        return list(last.values())[-MOST_PAST // 2 :]

    def _report(
        self,
        access: Access,
        stream: SimStream,
        source: SourceLine | None,
        verb: str,
        why: str,
    ) -> None:
        lane_of = stream.sim.streams.lane_of
        message = (
            f"{source} uses on {lane_of(stream.number)} what is {verb} on {lane_of(access.stream)} "
            f"by {access.source or 'earlier work'}, and {why}"
        )
        self.report(Hazard("unordered_streams", message, access.source, source))

    def _report_left(self, access: Access, stream: SimStream, source: SourceLine | None) -> None:
        """Reports that `stream` uses a new block in whose memory an earlier, freed tensor lay, and
        that the stream of `access` may still use that one."""
        lane, other = map(stream.sim.streams.lane_of, (stream.number, access.stream))
        message = (
            f"{source} uses on {lane} a new tensor, which lies in memory of a freed one that "
            f"{other} may still use in {access.source or 'earlier work'}"
        )
        self.report(Hazard("allocated_elsewhere", message, access.source, source))


def earlier(block: Block) -> Iterator[tuple[tuple[int, bool], Access]]:
    """Yields the latest accesses to the block, each after its key: the number of its stream, and
    True for a write."""
    yield from (block.others or {}).items()
    if block.last_read is not None:
        yield (block.last_read.stream, False), block.last_read
    if block.last_write is not None:
        yield (block.last_write.stream, True), block.last_write


def _overwritten(first: SourceLine | None, second: SourceLine | None) -> str:
    return (
        f"{second} uses what a graph wrote for {first} together with what its next replay wrote "
        "there: clone an output that is kept over a replay"
    )


OVERWRITTEN: HazardKind = "graph_output_overwritten"
UNORDERED = "nothing orders the two: record an event after one and make the other wait for it"
AT_ANY_TIME = (
    "may read it before its stream gets there: copy in the stream's order, or have the host know "
    "that the other is done"
)
MOST_PAST = 64
"""The most accesses remembered for an allocation that is not used by address."""
