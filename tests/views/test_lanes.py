"""Text lanes, as shown in a terminal and by a failing test."""

import pytest

from debubble.views.timeline.lanes import text_lanes
from debubble.views.timeline.tables import bubble_rows
from tests.timeline.recordings import LAUNCH, READ, Recording, transformer_step


def row_of(text: str, lane: str) -> str:
    """Returns the characters of one lane, after its name, in the printed text."""
    return next(line for line in text.splitlines() if line.startswith(lane)).partition("┊")[2]


@pytest.fixture
def recording():
    """Returns a recording with a kernel at 0–100 µs, an upload at 150–160 and a kernel at 160–200;
    the device is idle at 100–150, and the host waits at 50–150."""
    recording = Recording()
    recording.kernel(0, 100, recording.launch(0, 10))
    recording.sync(50, 150, READ)
    recording.copy(150, 160, launched_by=recording.launch(151, 152))
    recording.kernel(160, 200, recording.launch(153, 155))
    return recording


@pytest.mark.parametrize("width", [40, 78, 96, 140])
def test_no_line_is_wider_than_asked_for(width):
    timeline = transformer_step(3)
    sync = next(event for event in timeline.events if event.kind == "sync")
    zoomed = text_lanes(timeline, width, around=[sync], mark=sync)
    for text in (text_lanes(timeline, width), zoomed):
        assert max(len(line) for line in text.splitlines()) <= width
        assert len(row_of(text, "stream 0")) > width - 12


def test_kernels_copies_and_syncs_differ_and_gaps_are_blank(recording):
    text = text_lanes(recording.timeline, 110)
    host, stream, bubbles = (row_of(text, lane) for lane in ("host", "stream 0", "bubbles"))
    assert stream.startswith("█" * 50 + " " * 25 + "▲" * 5 + "█" * 20)
    assert host[26:74] == "▒" * 48
    assert bubbles.strip() == "h" * 25 + "c" * 5
    assert bubbles.index("h") == 50


def test_the_legend_explains_what_is_drawn_and_nothing_else(recording):
    text = text_lanes(recording.timeline)
    for words in ("█ kernel", "▲ pageable upload", "▒ host sync", "h waiting for the host"):
        assert words in text
    for words in ("download", "pinned upload", "graph launch", "o other"):
        assert words not in text


def test_the_time_axis_says_modelled_or_measured():
    assert "modelled time" in text_lanes(transformer_step(1, modelled=True))
    measured = text_lanes(transformer_step(1, modelled=False))
    assert "measured time" in measured and "modelled" not in measured


def test_drawing_twice_gives_the_same(recording):
    assert text_lanes(recording.timeline) == text_lanes(recording.timeline)


def test_a_short_copy_stays_visible_in_a_long_recording():
    recording = Recording()
    recording.kernel(0, 1_000_000)
    recording.copy(500_000, 500_001, stream=1)
    assert row_of(text_lanes(recording.timeline), "stream 1").count("▲") == 1


def test_a_short_copy_stays_visible_where_kernels_share_its_column():
    recording = Recording()
    recording.copy(500_000, 500_001)
    recording.kernel(0, 500_000)
    recording.kernel(500_001, 1_000_000)
    assert row_of(text_lanes(recording.timeline), "stream 0").count("▲") == 1


def test_many_tiny_gaps_do_not_look_like_one_bubble():
    recording = Recording()
    for start in range(0, 10_000, 10):
        recording.kernel(start, start + 9)
    assert not row_of(text_lanes(recording.timeline), "bubbles").strip()


def test_zooming_in_shows_the_gap_that_the_event_lies_in(recording):
    for number in range(100):
        recording.kernel(1000 + 10 * number, 1009 + 10 * number)
    timeline = recording.timeline
    sync = next(event for event in timeline.events if event.kind == "sync")
    assert "▲" * 2 not in row_of(text_lanes(timeline), "stream 0")
    zoomed = row_of(text_lanes(timeline, around=[sync]), "stream 0")
    assert "▲▲" in zoomed and "█ " in zoomed and "▲█" in zoomed


def test_the_culprit_is_pointed_at_with_its_line(recording):
    timeline = recording.timeline
    sync = next(event for event in timeline.events if event.kind == "sync")
    lines = text_lanes(timeline, around=[sync], mark=sync).splitlines()
    host = next(number for number, line in enumerate(lines) if line.startswith("host"))
    carets = lines[host + 1].partition("┊")[2]
    marked = lines[host].partition("┊")[2]
    assert {marked[i] for i, letter in enumerate(carets) if letter == "^"} <= {"▒", "╷"}
    assert carets.count("^") > 10
    assert "sampler.py:7: logits.argmax().item()" in "\n".join(lines[host + 1 : host + 3])


def test_a_note_replaces_the_source_line(recording):
    sync = next(event for event in recording.timeline.events if event.kind == "sync")
    text = text_lanes(recording.timeline, mark=sync, note="waits here")
    assert "waits here" in text and "sampler.py" not in text


def test_a_title_stands_before_the_label(recording):
    first = text_lanes(recording.timeline, title="before").splitlines()[0]
    assert first == "before: sim, modelled on NVIDIA H200"


def test_nothing_recorded_is_said():
    assert "(nothing was recorded)" in text_lanes(Recording().timeline)


def test_an_event_without_duration_can_be_drawn_alone():
    recording = Recording()
    recording.kernel(5, 5)
    for around in (None, recording.timeline.events):
        assert row_of(text_lanes(recording.timeline, around=around), "stream 0").strip()


def test_the_bubbles_table_sums_by_cause_and_line_longest_first():
    recording = Recording()
    recording.kernel(0, 10, recording.launch(0, 1))
    for start in (20, 40, 60):
        recording.kernel(start, start + 10, recording.launch(start - 2, start, LAUNCH))
    recording.kernel(71, 100, recording.launch(60, 61))
    first, second = bubble_rows(recording.timeline.bubbles(), recording.timeline.span)
    assert first[:4] == ("30.0 µs", "30.0%", "3", "waiting for the host")
    assert "attention.py:88" in first[4]
    assert second[:3] == ("1.0 µs", "1.0%", "1")


@pytest.mark.parametrize("length", [0.05, 0.7, 3.0, 250.0, 40_000.0])
def test_no_two_ticks_have_the_same_label(length):
    """No two ticks of a zoomed axis have the same label, even far from the start of the recording,
    where labels need many digits."""
    recording = Recording()
    recording.kernel(0, 6_510)
    recording.kernel(6_510, 6_510 + length)
    zoomed = text_lanes(recording.timeline, around=recording.timeline.events[-1:])
    labels = zoomed.splitlines()[-2].partition("┊")[2].partition("modelled")[0].split("  ")
    labels = [label.strip() for label in labels if label.strip()]
    assert len(labels) > 1
    assert len({*labels}) == len(labels)
