"""Causes of idle time, told apart in recordings of a few events."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debubble.timeline import CAUSES, Event, Timeline
from tests.instructions import instructions_of
from tests.timeline.recordings import LAUNCH, READ, UPLOAD, Recording, transformer_step


def found(recording, **options):
    return [
        (bubble.start, bubble.end, bubble.cause) for bubble in recording.timeline.bubbles(**options)
    ]


def two_kernels(second_launch, second_kernel, first_end=100.0):
    """Returns a recording of two kernels: one from 0 to `first_end` µs, and one at `second_kernel`,
    launched at `second_launch`, both (start, end) in µs."""
    recording = Recording()
    recording.kernel(0.0, first_end, recording.launch(-5, -1))
    recording.kernel(*second_kernel, recording.launch(*second_launch))
    return recording


def test_a_launch_that_comes_late_is_waiting_for_the_host_all_the_way_to_the_device():
    recording = two_kernels((140, 145), (148, 200))
    assert found(recording) == [(100, 148, "waiting for the host")]


def test_what_a_late_launch_does_not_explain_is_other():
    recording = two_kernels((140, 145), (190, 200))
    assert found(recording) == [(100, 145, "waiting for the host"), (145, 190, "other")]


def test_a_kernel_that_starts_within_its_launch_call_waited_for_the_host_alone():
    assert found(two_kernels((140, 150), (148, 200))) == [(100, 148, "waiting for the host")]


def test_a_small_gap_before_a_queued_kernel_is_waiting_for_a_kernel():
    assert found(two_kernels((10, 15), (101.5, 200))) == [(100, 101.5, "waiting for a kernel")]


def test_a_long_gap_before_a_queued_kernel_is_other():
    assert found(two_kernels((10, 15), (150, 200))) == [(100, 150, "other")]


def test_a_copy_on_the_same_stream_is_waited_for():
    recording = Recording()
    recording.kernel(0, 100, recording.launch(0, 1))
    recording.copy(101, 131, launched_by=recording.launch(2, 3))
    recording.kernel(132, 200, recording.launch(4, 5))
    assert found(recording) == [
        (100, 101, "waiting for a kernel"),
        (101, 131, "waiting for a copy"),
        (131, 132, "waiting for a kernel"),
    ]
    assert [bubble.source for bubble in recording.timeline.bubbles()] == [LAUNCH, UPLOAD, LAUNCH]


def test_a_copy_on_another_stream_is_waited_for_once_the_kernel_is_queued():
    recording = Recording()
    recording.kernel(0, 100, recording.launch(0, 1))
    recording.copy(50, 150, "h2d_pinned", recording.launch(2, 3), stream=1)
    recording.kernel(151, 200, recording.launch(110, 120))
    assert found(recording) == [
        (100, 120, "waiting for the host"),
        (120, 150, "waiting for a copy"),
        (150, 151, "waiting for a kernel"),
    ]


def test_a_copy_that_ends_before_the_late_launch_is_not_what_was_waited_for():
    recording = Recording()
    recording.kernel(0, 100, recording.launch(0, 1))
    recording.copy(101, 110, "h2d_pinned", recording.launch(2, 3), stream=1)
    recording.kernel(151, 200, recording.launch(140, 150))
    assert found(recording) == [(100, 151, "waiting for the host")]


def test_a_copy_beside_a_running_kernel_costs_nothing():
    recording = Recording()
    recording.kernel(0, 100, recording.launch(0, 1))
    recording.copy(20, 80, "h2d_pinned", recording.launch(2, 3), stream=1)
    recording.kernel(100, 200, recording.launch(4, 5))
    assert found(recording) == []
    assert recording.timeline.idle_share() == 0.0


def test_an_upload_before_the_first_kernel_is_waited_for_and_a_download_at_the_end_is_work():
    recording = Recording()
    recording.copy(0, 30, launched_by=recording.launch(0, 1))
    recording.kernel(30, 80, recording.launch(2, 3))
    recording.copy(80, 100, "d2h", recording.launch(4, 5))
    assert found(recording) == [(0, 30, "waiting for a copy")]
    assert recording.timeline.busy() == 70.0


def test_where_only_copies_run_they_are_the_work():
    recording = Recording()
    recording.copy(0, 50, "h2d_pinned", recording.launch(0, 1))
    recording.copy(60, 90, "h2d_pinned", recording.launch(51, 58))
    assert found(recording) == [(50, 60, "waiting for the host")]


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


def test_a_device_event_without_a_known_launch_is_never_the_hosts_fault():
    recording = Recording()
    recording.kernel(0, 10)
    recording.kernel(12, 20)
    recording.kernel(90, 99)
    assert [cause for _, _, cause in found(recording)] == ["waiting for a kernel", "other"]


def test_a_leading_sleep_can_be_left_out():
    recording = Recording()
    recording.kernel(0, 1000, recording.launch(0, 1), name="sleep")
    recording.kernel(1004, 1010, recording.launch(2, 3))
    timeline = recording.timeline
    assert timeline.span == 1010
    assert timeline.device_span(ignore_sleep=True) == 10
    assert timeline.idle_share(ignore_sleep=True) == pytest.approx(0.4)
    assert found(recording, ignore_sleep=True) == [(1000, 1004, "waiting for a kernel")]


def test_time_begins_behind_a_leading_sleep_whatever_ran_beside_it():
    recording = Recording()
    recording.kernel(0, 1000, recording.launch(0, 1), name="sleep")
    recording.kernel(100, 110, recording.launch(2, 3), stream=1)
    timeline = recording.timeline
    assert timeline.device_span(ignore_sleep=True) == timeline.idle_share(ignore_sleep=True) == 0
    recording.kernel(990, 1006, recording.launch(4, 5), stream=1)
    recording.kernel(1008, 1010, recording.launch(6, 7))
    assert timeline.device_span(ignore_sleep=True) == 10
    assert timeline.idle_share(ignore_sleep=True) == pytest.approx(0.2)
    assert found(recording, ignore_sleep=True) == [(1006, 1008, "waiting for a kernel")]


def test_a_sleep_in_the_middle_is_work_like_any_other():
    recording = Recording()
    recording.kernel(0, 10, recording.launch(0, 1))
    recording.kernel(10, 90, recording.launch(1, 2), name="sleep")
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
