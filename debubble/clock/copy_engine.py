"""A copy engine: runs one copy at a time, each as soon as its stream reaches it."""

from __future__ import annotations

from bisect import insort


class CopyEngine:
    """The schedule of one copy engine. A copy that waits in its stream doesn't block the copies of
    other streams."""

    def __init__(self) -> None:
        self._busy: list[tuple[float, float]] = []
        """The start and end of each copy that is in flight or pending, in order of time."""

    def book(self, earliest: float, duration: float, now: float) -> float:
        """Books the first free slot of `duration` at or after `earliest`, and returns its start.

        `now` is the host's clock. All times are microseconds."""
        self._busy = [(start, end) for start, end in self._busy if end > now]
        at = earliest
        for start, end in self._busy:
            if at + duration <= start:
                break
            at = max(at, end)
        insort(self._busy, (at, at + duration))
        return at
