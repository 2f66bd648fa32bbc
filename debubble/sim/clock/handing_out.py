"""Finds device memory that PyTorch reuses while work on another stream may still use it.

A tensor's memory belongs to the stream on which it was allocated. Once the tensor is freed, the
next allocation on that stream may get the memory at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress

from debubble.contract.source_line import SourceLine
from debubble.timeline.event import Hazard

from ..memory.access_log import Knowledge
from ..memory.blocks import ROUNDED_TO, Access, Block, Freed
from .races import Races
from .streams import SimStream

MOST_USED_BY_OTHERS = 1024
"""The most freed blocks that are remembered because another stream may still use them."""
MOST_LEFT = 64
"""The most freed blocks that are remembered because their own stream may still use them."""
SMALL = 1 << 20
"""The largest size of a small block, in bytes. PyTorch takes small blocks from separate memory."""


class HandingOut:
    def __init__(self, races: Races) -> None:
        self._races = races
        self.used_by_others: deque[Freed] = deque(maxlen=MOST_USED_BY_OTHERS)
        """Freed blocks that streams other than their own may still use."""

        self.left: deque[Freed] = deque(maxlen=MOST_LEFT)
        """Freed blocks that work on their own stream may still use."""

    def all_done(self) -> None:
        """Forgets all freed blocks, because the device has finished all queued work."""
        self.used_by_others.clear()
        self.left.clear()

    def expect_unused(
        self,
        block: Block,
        stream: SimStream,
        line: Callable[[], SourceLine | None],
    ) -> None:
        """Reports a race if another use of a new block's memory may be pending. Its owner is
        `stream`, one of several. `line` returns the source line that allocates the block."""
        block.leaves = self.left
        if self.left:
            self._races.lies_where(block, self._left_for(block, self._races.order.known_to_host))
        if self.used_by_others:
            self._expect_unused_by_others(block, stream, self._races.order.known_to(stream), line)

    def _left_for(self, block: Block, host_knows: Knowledge) -> Access | None:
        """Returns the last access to a freed block whose memory PyTorch may reuse for this new
        block, and forgets the freed block. Returns None if there is none, or if the host knows that
        the access is done."""
        # The garbage collector may free a block, and so change `left`, whenever Python makes an
        # object that it tracks. `tuple` makes one in the middle of the walk, and `copy` does not.
        for memory in reversed(self.left.copy()):
            if memory.owner == block.owner and _fits(block, memory.nbytes):
                with suppress(ValueError):
                    self.left.remove(memory)
                (use,) = memory.uses
                return use if host_knows(use.stream) < use.order else None
        return None

    def _expect_unused_by_others(
        self,
        block: Block,
        stream: SimStream,
        known: Knowledge,
        line: Callable[[], SourceLine | None],
    ) -> None:
        """Reports a race if a new block may reuse freed memory of its stream that another stream
        still uses."""
        for _ in range(len(self.used_by_others)):
            memory = self.used_by_others.popleft()
            uses = memory.uses
            if memory.owner == stream.number:
                uses = tuple(use for use in uses if known(use.stream) < use.order)
                if uses and _fits(block, memory.nbytes):
                    self._report(uses[-1], stream, line())
                    continue
            if uses:
                self.used_by_others.append(memory._replace(uses=uses))

    def _report(self, use: Access, stream: SimStream, source: SourceLine | None) -> None:
        lane_of = stream.sim.streams.lane_of
        message = (
            f"{source} gets memory on {lane_of(stream.number)} that {lane_of(use.stream)} "
            f"still uses, at {use.source or 'an earlier line'}: the tensor there was dropped, and "
            f"{lane_of(stream.number)}, on which its memory was asked for, doesn't wait for that "
            "use. Hold the tensor until it does, or call its record_stream"
        )
        self._races.report(Hazard("memory_reused", message, use.source, source))


def _fits(block: Block, nbytes: int) -> bool:
    """Returns True if PyTorch may place the block in a free piece of `nbytes` bytes."""
    start, end = block.span()
    asked, there = (-(-size // ROUNDED_TO) * ROUNDED_TO for size in (end - start, nbytes))
    return 0 < asked <= there and (asked <= SMALL) == (there <= SMALL)
