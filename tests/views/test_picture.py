"""The PNG of a timeline, and its text alternative."""

import io
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from debubble.views.timeline.caption import alt_text
from debubble.views.timeline.merging import join_by_share, shade
from debubble.views.timeline.palette import EVENT_STYLES
from debubble.views.timeline.picture import draw_figure, draw_png
from debubble.views.timeline.words import format_time
from tests.timeline.recordings import Recording, transformer_step


def pixels(png: bytes) -> np.ndarray:
    """Returns the picture's pixels, [height, width, 3] uint8."""
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


def recording_of(length):
    recording = Recording()
    recording.kernel(10, length, recording.launch(0, 4))
    return recording.timeline


def test_a_recording_that_took_much_longer_is_drawn_above_in_full_colour():
    short, long = recording_of(60), recording_of(900)
    figure = draw_figure(short, long)
    (axes,) = figure.axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    own = ["host", "stream 0", "idle"]
    assert rows == [f"{which}: {row}" for which in ("before", "after") for row in own]
    assert "before, above" in axes.get_title(loc="left")
    assert "above, the device before: idle" in alt_text(short, long)
    image = pixels(draw_png(short, long))
    upper, lower = image[: len(image) // 2], image[len(image) // 2 :]
    kernel = EVENT_STYLES["kernel"][1]
    assert share_of(upper, kernel) > 5 * share_of(lower, kernel) > 0


def test_up_to_three_times_as_long_it_is_a_ghost():
    (axes,) = draw_figure(recording_of(400), recording_of(900)).axes
    assert len(axes.get_yticklabels()) == 3
    assert "before, ghosted" in axes.get_title(loc="left")


def test_twenty_thousand_events_are_no_more_boxes_than_pixels():
    timeline = transformer_step(10, layers=530)
    assert len(timeline.events) > 20_000
    figure = draw_figure(timeline)
    (axes,) = figure.axes
    assert all(len(boxes.get_paths()) < figure.bbox.width for boxes in axes.collections)


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


def test_a_stream_that_is_mostly_idle_looks_so():
    """The drawn share of busy time is right for 20,000 short kernels. (Each kernel used to have at
    least a pixel, so a stream that was 93 % idle looked busy.)"""
    recording = Recording()
    for number in range(20_000):
        recording.kernel(10.0 * number, 10.0 * number + 0.7)
    figure = draw_figure(recording.timeline)
    (axes,) = figure.axes
    blue = to_rgb(EVENT_STYLES["kernel"][1])
    drawn = [
        (path.get_extents().width, colour[3])
        for boxes in axes.collections
        for path, colour in zip(boxes.get_paths(), boxes.get_facecolors(), strict=True)
        if tuple(colour[:3]) == blue and path.get_extents().height > 0.5
    ]
    assert sum(width * opacity for width, opacity in drawn) / 200_000 == pytest.approx(
        0.07, abs=0.01
    )


def test_short_spans_shade_pixels_and_long_ones_stay():
    assert shade([(0, 0.25), (0.5, 0.75), (1, 1.5), (5, 8)], pixel=1) == [
        (5, 8, 1.0),
        (0, 2, 0.5),
    ]


def test_long_spans_that_overlap_are_one_and_neighbours_stay_apart():
    assert shade([(4, 9), (9, 12), (4, 9), (5, 6.5), (0, 3)] * 100, pixel=0.5) == [
        (0, 3, 1.0),
        (4, 9, 1.0),
        (9, 12, 1.0),
    ]


def test_a_span_without_duration_is_there_and_fills_nothing():
    assert shade([(3.5, 3.5)], pixel=1) == [(3, 4, 0.0)]


@pytest.mark.parametrize(("length", "drawn"), [(0.3, []), (0.7, [(0, 10)])])
def test_short_spans_fill_a_pixel_only_together(length, drawn):
    spans = [(number, number + length) for number in range(10)]
    assert join_by_share(spans, pixel=1) == drawn


def test_a_long_span_is_drawn_as_it_is():
    assert join_by_share([(0.25, 7.5)], pixel=1) == [(0.25, 7.5)]


def test_the_time_from_end_to_end_leads():
    """The picture's title begins with the time from end to end, and the idle share comes second: a
    step that takes a sixth of the time can still be idle for a larger share of it."""
    quick, slow = transformer_step(0), transformer_step(4)
    (axes,) = draw_figure(quick, slow).axes
    first, second = axes.get_title(loc="left").splitlines()
    assert first == f"{format_time(quick.length)} end to end, before {format_time(slow.length)}"
    assert second.startswith("device idle")


def test_no_text_of_a_recording_is_a_formula():
    """A recording whose texts have `$` is drawn, and not taken for a formula. (A name with
    `$\\bad$` used to end in matplotlib's traceback.)"""
    recording = Recording()
    recording.timeline.description = r"$\bad$ \$5 and $x_{$"
    recording.kernel(0, 1)
    event = recording.timeline.events[0]
    recording.timeline.events.append(replace(event, lane=r"stream $\frac$"))
    other = replace(recording.timeline, description="$\\also$")
    assert draw_png(recording.timeline, other).startswith(b"\x89PNG")


def test_of_many_lanes_the_first_are_drawn_and_the_others_counted():
    recording = Recording()
    for stream in range(100):
        recording.kernel(0, 1 + stream, stream=stream)
    figure = draw_figure(recording.timeline)
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[0] == "stream 0" and labels[-2:] == ["(60 more lanes)", "idle"]
    kernels = next(boxes for boxes in axes.collections if 4 < boxes.get_zorder() < 5)
    assert min(path.vertices[:, 1].min() for path in kernels.get_paths()) > 2
    assert "stream 39 and 60 more" in alt_text(recording.timeline)
    recording.timeline.events[0] = replace(recording.timeline.events[0], lane="x" * 9_000)
    assert len(alt_text(recording.timeline)) < 2_000


def loaded(kernels):
    """Returns a recording of `kernels` short kernels behind a load of 10 ms."""
    recording = Recording()
    recording.kernel(0, 10_000, recording.launch(0, 4), name="sleep")
    for number in range(kernels):
        recording.kernel(10_000 + 20 * number, 10_018 + 20 * number)
    return recording.timeline


@pytest.mark.parametrize(("kernels", "is_left_out"), [(60, True), (3, False)])
def test_a_load_is_left_out_unless_it_is_the_subject(kernels, is_left_out):
    (axes,) = draw_figure(loaded(kernels)).axes
    first, last = axes.get_xlim()
    assert (9_900 < first < 10_000) == is_left_out
    assert last > 10_000 and (first < 0) != is_left_out
