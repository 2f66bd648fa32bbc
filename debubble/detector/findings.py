"""Sums the holds of a recording by the source line that caused them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

from ..contract.source_line import SourceLine
from ..timeline.data import TimelineData
from ..timeline.event import Hazard, HazardKind
from ..timeline.holds import HoldKind, HostKind, find_holds
from .host_words import HOST_WORDS
from .instead import Apart, instead_of, may_stay
from .loops import Steps
from .statements import statement_at


@dataclass(frozen=True, slots=True)
class Finding:
    """One call that holds up the host, in one way and in one thread.

    `held` is the total time, `worst` the longest time, and `idle` how long the device had nothing
    to do because of it, all in microseconds. `thread` is the thread's name, None for the thread
    that recorded. `call` is the PyTorch function that was called, and `operator` the ATen operator
    that waits, if they are known. `setup` is True if all of it happened before the steps of the
    run, `after` if all of it happened after them, `once` if it happened once in a run of several
    steps. `key` is, for a compilation, the kernel and what was new about its key.
    """

    kind: HoldKind | HostKind
    source: SourceLine | None
    thread: str | None
    allowed: bool
    call: str | None = None
    operator: str | None = None
    setup: bool = False
    after: bool = False
    once: bool = False
    count: int = 0
    held: float = 0.0
    worst: float = 0.0
    idle: float = 0.0
    key: str | None = None

    @property
    def what(self) -> str:
        """The thing that the host waits for, in a few words: `a value`, `a pageable upload`."""
        return (HOST_WORDS.get(self.kind) or WORDS[self.kind])[0]

    @property
    def meaning(self) -> str:
        """A short text on which calls cause it, and mostly what to write instead."""
        return (HOST_WORDS.get(self.kind) or WORDS[self.kind])[1]

    @property
    def instead(self) -> str | None:
        """Advice for this call, or None if no specific advice is known."""
        if self.kind in HOST_WORDS:
            return HOST_WORDS[self.kind][2]
        return instead_of(
            self.kind, self.call, self.operator, self.source, self.apart, bool(self.thread)
        )

    @property
    def apart(self) -> Apart:
        """The reason why the call belongs to no step. A single call in a loop belongs to the steps:
        a longer run would repeat it. So does a repeated one of a library, whose loops are not
        known, after the last step."""
        code = self.source and self.source.outside_pytorch
        forms = statement_at(code and code._replace(inside=())).forms
        library = code is not None and bool(code.inside)
        if self.count == 1 and not library and forms & {"in a loop", "every n"}:
            return None
        if self.setup:
            return "setup"
        if self.after and not (library and self.count > 1):
            return "after"
        if library:
            is_single = self.count == 1
        else:
            runs_once = code is not None and code.function == "<module>"
            is_single = runs_once and "top level" in forms and "comprehension" not in forms
        return "once" if self.once or is_single else None

    @property
    def innermost(self) -> SourceLine | None:
        """The innermost line outside PyTorch that causes it: a library's line if `source` called a
        library, else `source`."""
        code = self.source and self.source.outside_pytorch
        return code.inside[-1] if code and code.inside else code

    @property
    def is_a_wait(self) -> bool:
        """True if the host waits for the device. False for a staged upload, which only slows it,
        and for what the host itself does."""
        return self.kind != "staged_upload" and self.kind not in HOST_WORDS


def races_of(timeline: TimelineData) -> Counter[Hazard]:
    """Returns the races that were proved, one for each kind and pair of lines, with counts."""
    first: dict[tuple, Hazard] = {}
    times: Counter[Hazard] = Counter()
    for race in timeline.hazards:
        known = first.setdefault((race.kind, race.first, race.second), race)
        times[known] += 1
    return times


def find(timeline: TimelineData, steps: Steps | None = None) -> list[Finding]:
    """Returns a finding for every call that held up the host. Waits come before uploads that don't
    wait, and the costliest first. What may stay as it is comes after those, and set-up by `steps`
    comes last."""
    steps = steps or Steps(skip=0)
    totals: dict[tuple, Finding] = {}
    starts: defaultdict[tuple, list[float]] = defaultdict(list)
    owner: dict[int, tuple] = {}
    for hold in find_holds(timeline.events):
        event = hold.last
        operator = event.operator if event.call is None else None
        key = (hold.kind, event.source, event.thread, event.allowed, event.call, operator)
        sum_ = totals.get(key) or Finding(*key[:-1], event.operator)
        starts[key].append(event.start)
        totals[key] = replace(
            sum_,
            once=steps.until is not None and sum_.count == 0,
            count=sum_.count + 1,
            held=sum_.held + hold.held,
            worst=max(sum_.worst, hold.held),
        )
        owner |= {id(part): key for part in (hold.last, hold.copy) if part is not None}
    idle: defaultdict[tuple, float] = defaultdict(float)
    for bubble in timeline.bubbles():
        if id(bubble.held_by) in owner:
            idle[owner[id(bubble.held_by)]] += bubble.duration
    found = [
        replace(
            finding,
            idle=idle[key],
            setup=steps.are_setup(starts[key]),
            after=steps.are_after(starts[key]),
        )
        for key, finding in totals.items()
    ]
    return sorted(
        found,
        key=lambda one: (one.setup, may_stay(one.instead), not one.is_a_wait, -one.held),
    )


WORDS: dict[HoldKind | HostKind, tuple[str, str]] = {
    "value": (
        "a value",
        "the host needs a number from the device: .item(), a branch, a print, a slice bound, the "
        "size of a mask. Keep the number on the device, or compute it on the CPU beforehand.",
    ),
    "download": (
        "a download",
        ".cpu(), .tolist(), a copy to the host that blocks. Copy into pinned memory with "
        "non_blocking=True, record an event, and read the memory after the event.",
    ),
    "pageable_download": (
        "a pageable download",
        "a copy into pageable memory keeps the host until the device is done, even with "
        "non_blocking=True. Copy into pinned memory, record an event, and read the memory after "
        "the event.",
    ),
    "pageable_upload": (
        "a pageable upload",
        "torch.tensor(..., device=), .to(device), a list or a number as an index or a value. Fill "
        "pinned, contiguous memory and copy it with non_blocking=True: one alone does not help.",
    ),
    "staged_upload": (
        "a staged upload",
        "non_blocking=True from pageable memory: the driver first copies the bytes to a staging "
        "buffer, and above 2 MiB waits for the stream. Fill pinned, contiguous memory instead.",
    ),
    "pinned_upload": (
        "a pinned upload",
        "the memory is pinned, and the copy still blocks: non_blocking=True is missing.",
    ),
    "device": ("the device", "synchronize() waits for everything that is queued on any stream."),
    "stream": (
        "a stream",
        "stream.synchronize(), or an operator that waits inside. wait_stream() and wait_event() "
        "order streams without the host.",
    ),
    "event": (
        "an event",
        "event.synchronize(). query() asks without waiting; event.wait() orders streams without "
        "the host.",
    ),
    "library": ("a library", "a synchronisation that is not PyTorch's."),
}
"""`Finding.what` and `Finding.meaning` for each kind of hold."""

RACES: dict[HazardKind, str] = {
    "overwritten_in_flight": "The host writes to pinned memory that a copy still reads.",
    "read_before_sync": "The host reads memory before the copy into it is done.",
    "graph_input_freed": "A graph is replayed on memory that was freed.",
    "graph_output_overwritten": "A graph's output is used after the next replay wrote over it.",
    "unordered_streams": "Two streams use the same memory, and nothing orders them.",
    "memory_reused": "Memory is given to the next tensor while another stream uses it.",
    "allocated_elsewhere": "New memory is used on another stream than the one it was allocated on.",
    "undefined_order": "Several values are written to one place, and which one stays is undefined.",
}
"""One sentence about each kind of race."""
