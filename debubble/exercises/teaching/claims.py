"""The claims of a kata's test: `expect(timeline)` about the work of the host and the device,
`expect_equal` about returned values. A failing claim raises KataFailure, whose text teaches."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch

from debubble.contract.source_line import SourceLine, whose_is
from debubble.timeline.comparison import COUNT_WORDS
from debubble.timeline.event import COPY_KINDS, Event, HazardKind
from debubble.timeline.timeline import Timeline

from .diagnosis import Diagnosis, KataFailure

Actual = TypeVar("Actual")
Expected = TypeVar("Expected")

WORDS = COUNT_WORDS | {"d2d": ("copy within the device", "copies within the device")}
"""The learner's words for each count of `Timeline.counts`: singular, plural."""

PRINTED = (
    "A `print` did this: it reads the values of a tensor on the device, which takes several waits "
    "and kernels. Remove it before you count."
)

OF_EVERY_KATA: dict[HazardKind, str] = {
    "memory_reused": (
        "When a tensor is dropped, PyTorch gives its memory to the next tensor that is made on the "
        "same stream. PyTorch does not know that another stream still uses the memory. Tell it by "
        "`tensor.record_stream(computing)`: the argument is the stream that uses the tensor, not "
        "the stream that made it. Or keep the tensors, if the task allows it, until the stream "
        "that made them waits for the other, for example by `copying.wait_stream(computing)`."
    ),
    "allocated_elsewhere": (
        "A new tensor gets memory of a dropped one, and is free to use it on the stream that "
        "allocated it, not on another stream. Allocate it on the stream that writes it first, "
        "inside its `with` block. That stream must not use the memory again before the other has "
        "read it: call `tensor.record_stream(computing)` with the stream that reads."
    ),
    "undefined_order": (
        "The order in which the device's threads write is not defined, so the values may differ "
        "from run to run, and between sim and a GPU."
    ),
}
"""The reason why a race of this kind is wrong. It replaces the reason that a kata's test gives,
which is about other kinds of race."""

CALLER = "the caller of your code"
"""The words for a line of a kata's test, which does what a caller in an engine does."""

PAGEABLE_RETURNS = (
    "The upload is from pageable memory, and `non_blocking=True` promises nothing there: the host "
    "went on only because the bytes are few, and waits where they are many. Put the values into "
    "pinned memory first."
)
PINNED_WAITS = (
    "The memory is pinned, but the copy blocks: without `non_blocking=True` the host waits until "
    "it is done."
)
UPLOAD_WAITS = (
    "An upload from pageable memory is a wait, too: `torch.tensor(…, device=…)` makes its values "
    "on the host first. `torch.zeros` and `torch.full` fill memory on the device, without an "
    "upload."
)
READS_EACH = (
    "`torch.tensor` of a list of tensors reads each of them. `torch.stack` joins them on the "
    "device."
)

MOST_LINES = 3
"""The most lines of code that a failure quotes."""

MOST_DRAWN = 6
"""The most events that a failure's picture is drawn around; with more, each would only be
narrower."""

LAYOUT = (
    "A kernel gets an address and reads the elements that follow it in memory, row after row. From "
    "a transposed or strided view it reads other values than Python shows. Store the values in "
    "this order from the start, or end with `.contiguous()`, which copies."
)

LONGEST = 60
"""The most characters that a value may have in a sentence."""


def expect(timeline: Timeline) -> Expectation:
    """Returns an Expectation, whose methods make claims about `timeline`. A failing claim raises
    KataFailure, whose text teaches."""
    return Expectation(timeline)


class Expectation:
    """Claims about a timeline. Every claim returns this object, so that claims can be chained."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    def counts(self, *, why: str = "", **exactly: int) -> Expectation:
        """Checks that each named count of `Timeline.counts` has the given value; `why` says what
        more would cost."""
        return self._counted(operator.eq, "", exactly, why)

    def at_most(self, *, why: str = "", **limits: int) -> Expectation:
        """Checks that no named count of `Timeline.counts` is above its limit."""
        return self._counted(operator.le, "at most ", limits, why)

    def sends_at_most(self, nbytes: int, *, why: str = "") -> Expectation:
        """Checks that all uploads together have at most `nbytes` bytes."""
        uploads = [e for e in self.timeline.events if (e.copy_kind or "").startswith("h2d")]
        sent = sum(upload.bytes for upload in uploads)
        return self.that(
            sent <= nbytes,
            expected=f"at most {nbytes:,} bytes to be uploaded",
            did=f"uploads {sent:,} bytes",
            events=uploads,
            why=why,
        )

    def no_hazards(self, *, why: str = "") -> Expectation:
        """Checks that no race was proved. A GPU shows a race only now and then, so only sim proves
        races."""
        if not self.timeline.hazards:
            return self
        hazard, events = self.timeline.hazards[0], self.timeline.events
        others = len(self.timeline.hazards) - 1
        more = f" ({others} more like it)" if others else ""
        lines = tuple(dict.fromkeys(line for line in (hazard.first, hazard.second) if line))
        message = hazard.message.rstrip(".")
        for line in lines:  # the text of each line is quoted below
            message = message.replace(str(line), line.place if _is_own(line) else CALLER)
        raise Diagnosis(
            expected="no race between the host, the copies and the kernels",
            did=f"has one{more}: {message}",
            lines=tuple((line, 1) for line in lines if _is_own(line)),
            drawing=draw(self.timeline, [e for e in events if e.source in lines and e.on_device]),
            why=OF_EVERY_KATA.get(hazard.kind, why),
        ).failure()

    def that(
        self,
        holds: bool,
        *,
        expected: str,
        did: str,
        events: Sequence[Event] = (),
        quoted: Sequence[Event] | None = None,
        why: str = "",
    ) -> Expectation:
        """Makes any other claim: it fails if `holds` is False. The texts complete "Expected …" and
        "Your code …".

        `events` are drawn, and their lines are quoted. If some of their lines are not the
        learner's, pass in `quoted` the events whose lines to quote instead.
        """
        if holds:
            return self
        lines = source_lines(events if quoted is None else quoted)
        if any(line.text.startswith("print(") for line, _ in lines):
            why = f"{PRINTED}\n\n{why}"
        raise KataFailure(Diagnosis(expected, did, lines, draw(self.timeline, events), why))

    def _counted(
        self, holds: Callable[[int, int], bool], limit: str, wanted: dict[str, int], why: str
    ) -> Expectation:
        counts = self.timeline.counts()
        unknown = [name for name in wanted if name not in counts]
        if unknown:
            raise TypeError(f"a timeline does not count {unknown[0]!r}: choose from {[*counts]}")
        actual = {name: counts[name] for name in wanted}
        too_many = [name for name in wanted if actual[name] > wanted[name]]
        why = "\n\n".join(filter(None, [_of_transfers(self.timeline, too_many, wanted), why]))
        return self.that(
            all(holds(actual[name], wanted[name]) for name in wanted),
            expected=f"{limit}{listed(wanted)}",
            did=f"made {listed(actual)}",
            events=[event for event in self.timeline.events if _counted_as(event) in too_many],
            why=why,
        )


def _of_transfers(timeline: Timeline, too_many: Sequence[str], wanted: Iterable[str]) -> str:
    """Returns what the counts alone don't say of the copies that are too many, or that wait: ""
    for nothing."""
    waits = {event.source for event in timeline.events if event.kind == "sync"}
    found = {(e.copy_kind, e.source in waits) for e in timeline.events if e.kind == "copy"}
    said = []
    if "h2d_pageable" in too_many and ("h2d_pageable", False) in found:
        said.append(PAGEABLE_RETURNS)
    if "host_syncs" in too_many and ("h2d_pinned", True) in found:
        said.append(PINNED_WAITS)
    if (
        "host_syncs" in too_many
        and ("h2d_pageable", True) in found
        and "h2d_pageable" not in wanted
    ):
        said.append(UPLOAD_WAITS)
    lines = Counter(event.source for event in timeline.events if event.copy_kind == "d2h")
    if "d2h" in too_many and any(n > 1 and "torch.tensor(" in str(at) for at, n in lines.items()):
        said.append(READS_EACH)
    return " ".join(said)


def listed(counts: dict[str, int]) -> str:
    """Returns the counts in words: `no host syncs, 1 pinned upload and 2 kernels`."""
    words = [f"{number or 'no'} {WORDS[name][number != 1]}" for name, number in counts.items()]
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def source_lines(events: Iterable[Event]) -> tuple[tuple[SourceLine, int], ...]:
    """Returns the lines that these events come from, at most MOST_LINES, the busiest first, each
    with its number of events.

    One call may be a copy and a sync at once: it counts once.
    """
    times: dict[SourceLine, Counter[str]] = {}
    for event in events:
        if event.source is not None and _is_own(event.source):
            times.setdefault(event.source, Counter())[_counted_as(event)] += 1
    often = {line: max(counter.values()) for line, counter in times.items()}
    return tuple(sorted(often.items(), key=lambda item: -item[1])[:MOST_LINES])


def _is_own(line: SourceLine) -> bool:
    """True unless the line is a library's, as those of a kata's test are: a learner edits none of
    these."""
    return whose_is(line.file) != "a library's"


def draw(timeline: Timeline, events: Sequence[Event] = ()) -> str:
    """Returns the timeline as lanes of text, around the first few of `events` if there are any.

    An arrow points at the first of them. Returns "" for a timeline without events.
    """
    from debubble.views.timeline.lanes import text_lanes

    if not timeline.events:
        return ""
    few = events[:MOST_DRAWN]
    return text_lanes(timeline, around=few or None, mark=few[0] if few else None, note="here")


def _counted_as(event: Event) -> str:
    """Returns the name under which `Timeline.counts` counts the event."""
    if event.kind == "copy" and event.copy_kind in COPY_KINDS:
        return event.copy_kind
    return {"sync": "host_syncs", "kernel": "kernels", "graph_launch": "graph_launches"}.get(
        event.kind, event.kind
    )


def expect_equal(
    actual: Actual,
    expected: Expected,
    *,
    call: str = "",
    value: str = "",
    likely: str | Callable[[Actual, Expected], str] = "",
    tolerance: float = 0.0,
    contiguous: bool | None = None,
) -> None:
    """Checks that `actual` equals `expected`. The failure's text names the value by `call`, if a
    call returned it, or by `value`.

    Tensors are compared by shape, dtype, then values, on any device; of a long one the first row
    that differs is shown. NaN equals NaN. `tolerance` is absolute. A value that `call` returned
    must also be contiguous, as kernels need it. Pass `contiguous=True` to check that of a `value`,
    or False if `call` may return a view. `likely` is the likely cause of a difference, or a
    function that finds it from the two values; a wrong dtype explains itself.

    Raises KataFailure.
    """
    difference = _difference(actual, expected, tolerance)
    if difference is None:
        if contiguous or (contiguous is None and call):
            _check_layout(actual, call or value)
        return
    cause = likely(actual, expected) if callable(likely) else likely
    dtype = _dtype_to_name(actual, expected)
    if dtype is not None:
        cause = f"Name the dtype where the tensor is made: `dtype={dtype}`."
    rows = _rows_that_differ(actual, expected, tolerance)
    if rows is not None:
        number, ours, theirs = rows
        part = f"row {number} of {call or value}"
        expect_equal(ours, theirs, value=part, likely=cause, tolerance=tolerance)
    raise Diagnosis(
        expected=f"{call or value} to {'return' if call else 'be'} {shown(expected)}",
        did=f"{'returned' if call else 'made it'} {shown(actual)}{difference}",
        why=cause,
    ).failure()


def _check_layout(actual: object, name: str) -> None:
    """Raises KataFailure if `actual`, or a tensor in it, is not contiguous."""
    if isinstance(actual, list | tuple):
        for number, item in enumerate(actual):
            _check_layout(item, f"item {number} of {name}")
    if isinstance(actual, torch.Tensor) and not actual.is_contiguous():
        dense = torch.empty(actual.shape, device="meta").stride()
        raise Diagnosis(
            expected=f"{name} to be contiguous: strides {tuple(dense)} for the shape "
            f"{list(actual.shape)}",
            did=f"made a view with the right values, and strides {actual.stride()}",
            why=LAYOUT,
        ).failure()


def shown(value: object) -> str:
    """Returns a value as a failure's text shows it: a short tensor in full, a long one by its dtype
    and shape, any other value cut to LONGEST characters."""
    if isinstance(value, torch.Tensor):
        values = str(_on_cpu(value).tolist())
        kind = f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
        return f"{values} ({kind})" if len(values) <= LONGEST else f"a tensor of {kind}"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _difference(actual: object, expected: object, tolerance: float) -> str | None:
    """Returns how `actual` differs from `expected`, as the rest of "returned …"; "" if that says it
    all, None if they are equal."""
    if isinstance(expected, torch.Tensor):
        return _tensor_difference(actual, expected, tolerance)
    if isinstance(actual, torch.Tensor):
        kind = "not None" if expected is None else f"no {type(expected).__name__}"
        return f", a tensor and {kind}"
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return _sequence_difference(actual, expected, tolerance)
    if isinstance(expected, float) and isinstance(actual, int | float):
        distance = abs(actual - expected)
        if distance <= tolerance or actual == expected:
            return None
        return "" if math.isnan(distance) else f": it differs by {distance:.3g}"
    return None if actual == expected else ""


def _tensor_difference(actual: object, expected: torch.Tensor, tolerance: float) -> str | None:
    if not isinstance(actual, torch.Tensor):
        return ", which is no tensor"
    if actual.shape != expected.shape:
        return f": its shape is {list(actual.shape)} and not {list(expected.shape)}"
    if actual.dtype != expected.dtype:
        return f": its dtype is {actual.dtype} and not {expected.dtype}"
    ours, theirs = _on_cpu(actual), _on_cpu(expected)
    same = (
        ours.isclose(theirs, rtol=0.0, atol=tolerance, equal_nan=True)
        if ours.is_floating_point()
        else ours == theirs
    )
    if bool(same.all()):
        return None
    index = (~same).nonzero()[0].tolist()
    if not index:
        return ""
    return (
        f": the first difference is at {index}, {ours[tuple(index)].item()} "
        f"and not {theirs[tuple(index)].item()}"
    )


def _dtype_to_name(actual: object, expected: object) -> torch.dtype | None:
    """Returns the dtype of `expected` if both are tensors of one shape and of different dtypes,
    else None."""
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        return None
    differ = actual.shape == expected.shape and actual.dtype != expected.dtype
    return expected.dtype if differ else None


def _rows_that_differ(
    actual: object, expected: object, tolerance: float
) -> tuple[int, torch.Tensor, torch.Tensor] | None:
    """Returns the first row in which two tensors differ, as its number and that row of each.
    Returns None unless they agree in shape and dtype and are too long to be shown."""
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        return None
    alike = actual.shape == expected.shape and actual.dtype == expected.dtype
    if not alike or expected.dim() < 2 or len(str(_on_cpu(expected).tolist())) <= LONGEST:
        return None
    rows = range(len(expected))
    row = next(i for i in rows if _tensor_difference(actual[i], expected[i], tolerance))
    return row, actual[row], expected[row]


def _sequence_difference(
    actual: Sequence[object], expected: Sequence[object], tolerance: float
) -> str | None:
    if len(actual) != len(expected):
        items = "1 item" if len(actual) == 1 else f"{len(actual)} items"
        return f": it has {items} and not {len(expected)}"
    for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
        difference = _difference(one, other, tolerance)
        if difference is not None:
            if isinstance(one, list | tuple) and shown(one) != shown(other):
                difference = ""  # it can be seen
            return f". Item {index} is {shown(one)} and not {shown(other)}{difference}"
    return None


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu()
