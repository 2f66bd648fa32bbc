"""A copy engine: one copy at a time, each as soon as its stream has come to it."""

from __future__ import annotations

from bisect import insort


class CopyEngine:
    """A copy that waits in its stream keeps no other stream's copy from going first."""

    def __init__(self) -> None:
        self._busy: list[tuple[float, float]] = []
        """Start and end of the copies that are under way or to come, in the order of time."""

    def book(self, earliest: float, duration: float, now: float) -> float:
        """When a copy starts that may do so at `earliest`; `now` is the host's clock."""
        self._busy = [(start, end) for start, end in self._busy if end > now]
        at = earliest
        for start, end in self._busy:
            if at + duration <= start:
                break
            at = max(at, end)
        insort(self._busy, (at, at + duration))
        return at
