"""Finds what held the host in a recording: each wait, and each copy during which the driver holds
the host.

A blocking copy is two CUDA calls, the copy and a synchronisation, and counts as one hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from .event import Event

HoldKind = Literal[
    "value",
    "download",
    "pageable_download",
    "pageable_upload",
    "staged_upload",
    "pinned_upload",
    "device",
    "stream",
    "event",
    "library",
]
HostKind = Literal[
    "compile", "alloc", "pinned_alloc", "python", "python_waits", "launches", "full_queue"
]
"""The kinds of work of the host, during which the device may have none."""

A_VALUE = 16
"""Bytes of the largest single number, a complex double."""


class Hold(NamedTuple):
    """A wait of the host. `held`: microseconds that the host could not go on; `last`: the host
    event that ended the wait; `copy`: the upload or download that held the host, else None."""

    kind: HoldKind
    held: float
    last: Event
    copy: Event | None


def find_holds(events: Sequence[Event]) -> Iterator[Hold]:
    """Yields each hold of the host in a recording, those of one thread in the order in which they
    ended."""
    copies = {
        event.launched_by: event
        for event in events
        if event.kind == "copy" and event.launched_by is not None
    }
    asked: dict[str | None, tuple[Event, Event]] = {}
    """The copying call and its copy for each thread whose last call launched a copy."""
    for index, event in enumerate(events):
        if event.on_device:
            continue
        call = asked.pop(event.thread, None)
        if call is not None and _ends_copy(event, call[0]):
            yield _blocking_copy(*call, event)
            continue
        if call is not None:
            yield from _copy_alone(*call)
        if event.kind == "sync":
            yield Hold(WAITS.get(event.name, "library"), event.duration, event, None)
        if index in copies:
            asked[event.thread] = event, copies[index]
    for call in asked.values():
        yield from _copy_alone(*call)


WAITS: dict[str, HoldKind] = {
    "device synchronize": "device",
    "stream synchronize": "stream",
    "event synchronize": "event",
}


def _ends_copy(event: Event, call: Event) -> bool:
    return event.kind == "sync" and event.name == AFTER_COPY and event.source == call.source


AFTER_COPY = "stream synchronize"
"""The synchronisation by which PyTorch waits for a blocking copy."""


def _blocking_copy(call: Event, copy: Event, sync: Event) -> Hold:
    """Returns the hold of a blocking copy, made of the copying `call` and the `sync` after it. With
    pageable memory the call itself counts too, because it works on the host's bytes."""
    held = sync.duration + (call.duration if _is_pageable(copy) else 0.0)
    if copy.copy_kind == "d2h":
        return Hold("value" if copy.bytes <= A_VALUE else "download", held, sync, copy)
    if copy.copy_kind == "d2d":
        return Hold("stream", held, sync, None)
    return Hold("pageable_upload" if _is_pageable(copy) else "pinned_upload", held, sync, copy)


def _copy_alone(call: Event, copy: Event) -> Iterator[Hold]:
    """Yields the hold of a non-blocking copy, if pageable memory lets the driver still hold the
    host."""
    if _is_pageable(copy):
        kind: HoldKind = "pageable_download" if copy.copy_kind == "d2h" else "staged_upload"
        yield Hold(kind, call.duration, call, copy)


def _is_pageable(copy: Event) -> bool:
    """Returns True for a copy with pageable memory. In files older than the flag only the kind of
    an upload shows this."""
    return copy.pageable or copy.copy_kind == "h2d_pageable"
