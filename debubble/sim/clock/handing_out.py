"""Device memory that PyTorch hands out again, while work on another stream may still use it.

A tensor's memory belongs to the stream on which it was asked for. When nobody holds it any more,
whoever asks next on that stream is given it, at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from debubble.contract.source_line import SourceLine
from debubble.timeline.event import Hazard

from ..memory.access_log import Knowledge
from ..memory.blocks import ROUNDED_TO, Access, Block, GivenBack

if TYPE_CHECKING:
    from .streams import SimStream

MOST_GIVEN_BACK = 1024
"""Pieces of memory that are remembered until they can be handed out without a race."""
SMALL = 1 << 20
"""Bytes. PyTorch keeps memory for small requests apart."""


class HandingOut:
    def __init__(self, report: Callable[[Hazard], None]) -> None:
        self.report = report
        self.given_back: deque[GivenBack] = deque(maxlen=MOST_GIVEN_BACK)
        """What blocks are put into when nobody holds them any more."""

    def all_done(self) -> None:
        """Whatever was queued before is done, so that all memory may be handed out."""
        self.given_back.clear()

    def expect_unused(
        self,
        block: Block,
        stream: SimStream,
        known: Knowledge,
        line: Callable[[], SourceLine | None],
    ) -> None:
        """A new block may be made of what was given back on its stream, whoever else still uses
        that. `line` looks up who asks for it."""
        for _ in range(len(self.given_back)):
            memory = self.given_back.popleft()
            uses = memory.uses
            if memory.owner == stream.number:
                uses = tuple(use for use in uses if known(use.stream) < use.order)
                if uses and _fits(block, memory.nbytes):
                    self._report(uses[-1], stream, line())
                    continue
            if uses:
                self.given_back.append(memory._replace(uses=uses))

    def _report(self, use: Access, stream: SimStream, source: SourceLine | None) -> None:
        lane_of = stream.sim.lane_of
        message = (
            f"{source} is handed memory on {lane_of(stream.number)} that {lane_of(use.stream)} "
            f"still uses, at {use.source or 'an earlier line'}: the tensor there was dropped, and "
            f"{lane_of(stream.number)}, on which its memory was asked for, doesn't wait for that "
            "use. Hold the tensor until it does, or call its record_stream"
        )
        self.report(Hazard("memory_reused", message, use.source, source))


def _fits(block: Block, nbytes: int) -> bool:
    """Whether PyTorch may make the block of a piece of so many bytes."""
    start, end = block.span()
    asked, there = (-(-size // ROUNDED_TO) * ROUNDED_TO for size in (end - start, nbytes))
    return 0 < asked <= there and (asked <= SMALL) == (there <= SMALL)
