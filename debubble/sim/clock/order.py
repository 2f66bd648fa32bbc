"""Knows which work comes before other work: what streams and the host waited for."""

from __future__ import annotations

from ..memory.access_log import Knowledge
from ..memory.blocks import Access
from .streams import SimStream


class Order:
    """The order of a device's work, as far as waiting has established it."""

    def __init__(self) -> None:
        self._host_seen: dict[int, int] = {}
        """The items of each stream that the host knows to be done, by the stream's number."""

    def host_sees(self, seen: dict[int, int]) -> None:
        """Notes that the host knows the first `seen[n]` items of each stream n to be done."""
        for number, count in seen.items():
            self._host_seen[number] = max(count, self._host_seen.get(number, 0))

    def known_to(self, stream: SimStream) -> Knowledge:
        """Returns a function from a stream's number to how many of its items come before anything
        that is queued on `stream` from now on."""

        def known(number: int) -> int:
            if number == stream.number:
                return stream.submitted
            return max(stream.seen.get(number, 0), self.known_to_host(number))

        return known

    def known_to_host(self, number: int) -> int:
        """Returns how many items of a stream the host knows to be done."""
        return self._host_seen.get(number, 0)

    def is_known(self, access: Access, stream: SimStream) -> bool:
        """Returns True if `access` comes before the work that is queued on `stream` now."""
        number = access.stream
        known = stream.seen.get(number, 0), self._host_seen.get(number, 0)
        return number == stream.number or max(known) >= access.order
