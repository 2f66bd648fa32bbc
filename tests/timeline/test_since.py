"""A recording from some moment on: its events, times, counts and launches."""

from debubble.timeline import Timeline
from debubble.timeline.event import Event

EVENTS = [
    Event("launch", "load", "host", 0.0, 2.0),
    Event("launch", "add", "host", 4.0, 2.0),
    Event("kernel", "load", "stream 0", 2.0, 98.0, launched_by=0),
    Event("sync", "wait", "host", 10.0, 100.0),
    Event("kernel", "add", "stream 0", 101.0, 3.0, launched_by=1),
    Event("launch", "mul", "host", 110.0, 2.0),
    Event("kernel", "mul", "stream 0", 115.0, 3.0, launched_by=5),
]


def recording():
    return Timeline("cuda", "NVIDIA H200", False, events=list(EVENTS))


def found(timeline):
    return [(event.kind, event.name, event.start, event.end) for event in timeline.events]


def test_what_was_under_way_is_cut():
    assert found(recording().since(90.0)) == [
        ("launch", "load", 0.0, 0.0),
        ("launch", "add", 0.0, 0.0),
        ("kernel", "load", 0.0, 10.0),
        ("sync", "wait", 0.0, 20.0),
        ("kernel", "add", 11.0, 14.0),
        ("launch", "mul", 20.0, 22.0),
        ("kernel", "mul", 25.0, 28.0),
    ]


def test_what_is_over_is_left_out():
    assert [event.name for event in recording().since(112.0).events] == ["mul", "mul"]


def test_a_kernel_keeps_its_launch():
    later = recording().since(105.0)
    kernel = later.events[-1]
    assert later.launch_of(kernel).name == "mul"


def test_bubbles_have_the_causes_that_they_had():
    whole, later = recording().bubbles(), recording().since(90.0).bubbles()
    assert [(b.cause, b.duration) for b in later] == [(b.cause, b.duration) for b in whole]
    assert later[0].start == whole[0].start - 90.0


def test_the_recording_itself_stays():
    whole = recording()
    whole.since(90.0)
    assert whole.events == EVENTS
