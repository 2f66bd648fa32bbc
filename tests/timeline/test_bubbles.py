"""Causes of idle time, told apart in recordings of a few events."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debubble.timeline import CAUSES, COPY_KINDS, Event, Timeline
from tests.instructions import instructions_of
from tests.timeline.recordings import LAUNCH, READ, UPLOAD, Recording, transformer_step


def found(recording, **options):
    return [
        (bubble.start, bubble.end, bubble.cause) for bubble in recording.timeline.bubbles(**options)
    ]


def recording_of(*rows):
    """Returns a recording of kernels and copies: (kind, start, end, (start, end) of its launch) in
    µs each, and the stream if it isn't 0. The kind of a copy is its direction, and that of a
    kernel is its name."""
    recording = Recording()
    for kind, start, end, launch, *stream in rows:
        call = launch and recording.launch(*launch)
        how = {"launched_by": call, "stream": stream[0] if stream else 0}
        if kind in COPY_KINDS:
            recording.copy(start, end, kind, **how)
        else:
            recording.kernel(start, end, name=kind, **how)
    return recording


FIRST = ("gemm", 0, 100, (-5, -1))
HOST, COPY, KERNEL = (f"waiting for {what}" for what in ("the host", "a copy", "a kernel"))
FOUND = {
    "a late launch waits for the host all the way to the device": (
        [FIRST, ("gemm", 148, 200, (140, 145))],
        [(100, 148, HOST)],
    ),
    "what a late launch does not explain is other": (
        [FIRST, ("gemm", 190, 200, (140, 145))],
        [(100, 145, HOST), (145, 190, "other")],
    ),
    "a kernel that starts within its launch call waited for the host alone": (
        [FIRST, ("gemm", 148, 200, (140, 150))],
        [(100, 148, HOST)],
    ),
    "a small gap before a queued kernel is waiting for a kernel": (
        [FIRST, ("gemm", 101.5, 200, (10, 15))],
        [(100, 101.5, KERNEL)],
    ),
    "a long gap before a queued kernel is other": (
        [FIRST, ("gemm", 150, 200, (10, 15))],
        [(100, 150, "other")],
    ),
    "a copy on another stream is waited for once the kernel is queued": (
        [FIRST, ("h2d_pinned", 50, 150, (2, 3), 1), ("gemm", 151, 200, (110, 120))],
        [(100, 120, HOST), (120, 150, COPY), (150, 151, KERNEL)],
    ),
    "a copy that ends before the late launch is not what was waited for": (
        [FIRST, ("h2d_pinned", 101, 110, (2, 3), 1), ("gemm", 151, 200, (140, 150))],
        [(100, 151, HOST)],
    ),
    "a copy beside a running kernel costs nothing": (
        [FIRST, ("h2d_pinned", 20, 80, (2, 3), 1), ("gemm", 100, 200, (4, 5))],
        [],
    ),
    "an upload before the first kernel is waited for and a download at the end is work": (
        [("h2d_pageable", 0, 30, (0, 1)), ("gemm", 30, 80, (2, 3)), ("d2h", 80, 100, (4, 5))],
        [(0, 30, COPY)],
    ),
    "where only copies run they are the work": (
        [("h2d_pinned", 0, 50, (0, 1)), ("h2d_pinned", 60, 90, (51, 58))],
        [(50, 60, HOST)],
    ),
    "a device event without a known launch is never the hosts fault": (
        [("gemm", 0, 10, None), ("gemm", 12, 20, None), ("gemm", 90, 99, None)],
        [(10, 12, KERNEL), (20, 90, "other")],
    ),
}
"""Recordings as rows, and their bubbles (start, end, cause)."""


@pytest.mark.parametrize("what", FOUND)
def test_idle_time_has_its_cause(what):
    rows, bubbles = FOUND[what]
    recording = recording_of(*rows)
    assert found(recording) == bubbles
    timeline = recording.timeline
    idle = sum(end - start for start, end, _ in bubbles)
    assert timeline.idle_share() == pytest.approx(idle / timeline.span)
    assert timeline.busy() == pytest.approx(timeline.span - idle)


def test_a_copy_on_the_same_stream_is_waited_for():
    recording = recording_of(FIRST, ("h2d_pageable", 101, 131, (2, 3)), ("gemm", 132, 200, (4, 5)))
    assert found(recording) == [(100, 101, KERNEL), (101, 131, COPY), (131, 132, KERNEL)]
    assert [bubble.source for bubble in recording.timeline.bubbles()] == [LAUNCH, UPLOAD, LAUNCH]


def test_the_line_to_look_at_is_the_sync_that_held_the_host():
    recording = Recording()
    recording.kernel(0, 100, recording.launch(0, 1))
    recording.sync(2, 103, READ)
    recording.kernel(121, 200, recording.launch(110, 120))
    assert recording.timeline.bubbles()[0].source == READ


def test_a_sync_that_ended_long_before_is_not_to_blame():
    recording = Recording()
    recording.sync(0, 20, READ)
    recording.kernel(25, 100, recording.launch(20, 24))
    recording.kernel(141, 200, recording.launch(130, 140))
    (bubble,) = recording.timeline.bubbles()
    assert bubble.cause == "waiting for the host"
    assert bubble.source == LAUNCH


def test_kernels_within_a_graph_wait_for_kernels_though_the_launch_call_still_runs():
    recording = Recording()
    graph = recording.host("graph_launch", 0, 60)
    recording.kernel(10, 20, graph)
    recording.kernel(22, 30, graph)
    recording.kernel(31, 90, graph)
    assert {cause for _, _, cause in found(recording)} == {"waiting for a kernel"}


def test_the_first_kernel_of_a_graph_waits_for_its_launch_after_a_copy_of_the_graph():
    """A graph may begin with a copy between two buffers of the device, and take long to launch."""
    recording = Recording()
    recording.kernel(0, 10, recording.launch(0, 2))
    graph = recording.host("graph_launch", 12, 300)
    recording.copy(290, 291, "d2d", graph)
    recording.kernel(292, 300, graph)
    causes = [(bubble.cause, bubble.duration) for bubble in recording.timeline.bubbles()]
    assert causes == [
        ("waiting for the host", 280),
        ("waiting for a copy", 1),
        ("waiting for the host", 1),
    ]


def test_a_leading_sleep_can_be_left_out():
    recording = recording_of(("sleep", 0, 1000, (0, 1)), ("gemm", 1004, 1010, (2, 3)))
    timeline = recording.timeline
    assert timeline.span == 1010
    assert timeline.device_span(ignore_sleep=True) == 10
    assert timeline.idle_share(ignore_sleep=True) == pytest.approx(0.4)
    assert found(recording, ignore_sleep=True) == [(1000, 1004, KERNEL)]


def test_time_begins_behind_a_leading_sleep_whatever_ran_beside_it():
    recording = recording_of(("sleep", 0, 1000, (0, 1)), ("gemm", 100, 110, (2, 3), 1))
    timeline = recording.timeline
    assert timeline.device_span(ignore_sleep=True) == timeline.idle_share(ignore_sleep=True) == 0
    recording.kernel(990, 1006, recording.launch(4, 5), stream=1)
    recording.kernel(1008, 1010, recording.launch(6, 7))
    assert timeline.device_span(ignore_sleep=True) == 10
    assert timeline.idle_share(ignore_sleep=True) == pytest.approx(0.2)
    assert found(recording, ignore_sleep=True) == [(1006, 1008, KERNEL)]


def test_a_sleep_in_the_middle_is_work_like_any_other():
    recording = recording_of(("gemm", 0, 10, (0, 1)), ("sleep", 10, 90, (1, 2)))
    assert recording.timeline.busy(ignore_sleep=True) == 90


device_events = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "copy", "memset"]),
        st.integers(0, 2),
        st.floats(0, 1000),
        st.floats(0.1, 100),
        st.one_of(st.none(), st.floats(-50, 1000)),
    ),
    max_size=30,
)


@given(device_events)
def test_bubbles_never_overlap_and_add_up_to_the_idle_time(rows):
    recording = Recording()
    for kind, stream, start, duration, launch in rows:
        call = None if launch is None else recording.launch(launch, launch + 4)
        copy_kind = "h2d_pinned" if kind == "copy" else None
        recording.timeline.events.append(
            Event(
                kind, kind, f"stream {stream}", start, duration,
                copy_kind=copy_kind, launched_by=call,
            )
        )  # fmt: skip
    timeline: Timeline = recording.timeline
    bubbles = timeline.bubbles()
    assert all(bubble.cause in CAUSES and bubble.duration > 0 for bubble in bubbles)
    for earlier, later in pairwise(bubbles):
        assert earlier.end <= later.start + 1e-6
    for bubble in bubbles:
        for event in timeline.events:
            if event.kind in ("kernel", "memset"):
                assert event.end <= bubble.start + 1e-6 or event.start >= bubble.end - 1e-6
    idle = timeline.idle_share() * timeline.span
    # A gap may lose less than a timestamp's rounding at each cut.
    assert sum(bubble.duration for bubble in bubbles) == pytest.approx(idle, abs=0.02 * len(rows))


def test_ten_times_the_events_are_ten_times_the_work():
    few, many = transformer_step(10, layers=53), transformer_step(10, layers=530)
    assert len(many.events) > 20_000
    assert instructions_of(many.bubbles) < 11 * instructions_of(few.bubbles)
