"""The PNG, and the words that stand for it."""

import io
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from debubble.views.timeline.merging import join_by_share, join_close
from debubble.views.timeline.palette import EVENT_STYLES
from debubble.views.timeline.picture import alt_text, draw_figure, draw_png
from debubble.views.timeline.words import format_time
from tests.timeline.recordings import Recording, transformer_step


def pixels(png: bytes) -> np.ndarray:
    """[height, width, 3] uint8."""
    return (imread(io.BytesIO(png))[..., :3] * 255).round().astype(np.uint8)


def share_of(image: np.ndarray, colour: str) -> float:
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return float((np.abs(image.astype(int) - wanted).max(-1) < 8).mean())


def test_kernels_are_seen_where_there_are_kernels():
    image = pixels(draw_png(transformer_step(4)))
    assert share_of(image, EVENT_STYLES["kernel"][1]) > 0.08
    recording = Recording()
    recording.sync(0, 10)
    blank = pixels(draw_png(recording.timeline))
    assert share_of(blank, EVENT_STYLES["kernel"][1]) == 0.0


def test_the_picture_says_modelled_or_measured():
    for modelled, word in ((True, "modelled"), (False, "measured")):
        figure = draw_figure(transformer_step(1, modelled=modelled))
        (axes,) = figure.axes
        assert word in axes.get_xlabel() and axes.get_xlabel().startswith("time: ")


def test_before_is_ghosted_paler_than_after_and_stands_out_behind_it():
    timeline = transformer_step(4)
    alone, both = pixels(draw_png(timeline)), pixels(draw_png(timeline, before=timeline))
    kernel = EVENT_STYLES["kernel"][1]
    assert 0.5 < share_of(both, kernel) / share_of(alone, kernel) < 0.85
    assert share_of(both, "#bfdbeb") > 0.01


def test_twenty_thousand_events_are_no_more_boxes_than_pixels():
    timeline = transformer_step(10, layers=530)
    assert len(timeline.events) > 20_000
    (axes,) = draw_figure(timeline).axes
    pixels_wide = axes.bbox.width
    assert all(len(boxes.get_paths()) < pixels_wide for boxes in axes.collections)


def test_an_empty_timeline_has_a_picture_and_words():
    timeline = Recording().timeline
    assert draw_png(timeline).startswith(b"\x89PNG")
    assert alt_text(timeline) == "Timeline without events."


def test_the_words_say_what_the_picture_shows():
    words = alt_text(transformer_step(0), transformer_step(4))
    assert "modelled on NVIDIA H200" in words
    assert "1 pinned upload, 32 kernels" in words
    assert "the device before: idle" in words


def test_the_words_can_begin_behind_a_load():
    recording = Recording()
    recording.kernel(0, 900, recording.launch(0, 1), name="sleep")
    recording.kernel(950, 1000, recording.launch(2, 3))
    assert "idle 5% of 1.00 ms" in alt_text(recording.timeline)
    assert "idle 50% of 100.0 µs" in alt_text(recording.timeline, ignore_sleep=True)
    (axes,) = draw_figure(recording.timeline, ignore_sleep=True).axes
    assert "idle 50% of 100.0 µs" in axes.get_title(loc="left")


def test_drawing_leaves_pyplot_alone():
    code = (
        "import sys; from debubble.views.timeline.picture import draw_png;"
        "from tests.timeline.recordings import transformer_step;"
        "draw_png(transformer_step(2)); print('matplotlib.pyplot' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr


def test_spans_closer_than_half_a_pixel_are_joined():
    assert join_close([(5, 6), (0, 1), (1.4, 2)], pixel=1) == [(0, 2.4), (5, 6)]


def test_a_span_shorter_than_a_pixel_becomes_one():
    assert join_close([(3.0, 3.01)], pixel=1) == [(3.0, 4.0)]


@pytest.mark.parametrize(("length", "drawn"), [(0.3, []), (0.7, [(0, 10)])])
def test_short_spans_fill_a_pixel_only_together(length, drawn):
    spans = [(number, number + length) for number in range(10)]
    assert join_by_share(spans, pixel=1) == drawn


def test_a_long_span_is_drawn_as_it_is():
    assert join_by_share([(0.25, 7.5)], pixel=1) == [(0.25, 7.5)]


def test_the_time_from_end_to_end_leads():
    """A step of a sixth of the time may idle for a larger share of it."""
    quick, slow = transformer_step(0), transformer_step(4)
    (axes,) = draw_figure(quick, slow).axes
    first, second = axes.get_title(loc="left").splitlines()
    assert first == f"{format_time(quick.length)} end to end, before {format_time(slow.length)}"
    assert second.startswith("device idle")
