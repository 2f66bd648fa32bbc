"""The live timeline in a real Chromium, used by mouse, keyboard and screen reader."""

import re

import numpy as np
import pytest

from debubble.timeline.event import Step
from debubble.views.prediction.stretch import Stretch, StretchField
from debubble.views.timeline.palette import EVENT_STYLES
from tests.timeline.recordings import Recording, transformer_step

from .chromium import chromium, quiet_page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

HOST_Y, QUEUE_Y, STREAM_Y, IDLE_Y = 44, 76, 108, 140


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def show(browser):
    """Returns show(timeline, before), which opens a page with the live timeline. Checks at the end
    that the page had no error and no request to other machines."""
    from .timeline_page import TimelinePage

    with quiet_page(browser, "about:", viewport={"width": 1000, "height": 600}) as page:
        yield lambda timeline, before=None: TimelinePage(page, timeline, before)


def test_the_wheel_zooms_about_the_pointer_and_a_double_click_resets(show):
    view = show(transformer_step(4))
    everything = view.range
    moment = view.moment_at(500)
    view.wheel(500, STREAM_Y, -200, times=5)
    assert view.seen < (everything[1] - everything[0]) / 3
    assert view.x_of(moment) == pytest.approx(500, abs=0.5)
    view.canvas.dblclick(position={"x": 500, "y": STREAM_Y})
    view.settle()
    assert view.range == everything


def test_zooming_ends_at_everything_and_at_nanoseconds(show):
    view = show(transformer_step(4))
    everything = view.range
    view.wheel(500, STREAM_Y, -300, times=40)
    assert 0.04 < view.seen < 0.06
    view.wheel(500, STREAM_Y, 300, times=60)
    assert view.range == everything


def test_dragging_pans_and_stops_at_the_ends(show):
    view = show(transformer_step(4))
    everything = view.range
    view.wheel(500, STREAM_Y, -200, times=4)
    start, seen = view.range[0], view.seen
    box = view.canvas.bounding_box()
    for shift in (-200, 3000):
        view.move(500, STREAM_Y)
        view.page.mouse.down()
        view.page.mouse.move(box["x"] + 500 + shift, box["y"] + STREAM_Y, steps=4)
        view.page.mouse.up()
        view.settle()
        assert view.seen == pytest.approx(seen, rel=1e-3)
        if shift < 0:
            assert view.range[0] > start + seen * 0.15
    assert view.range[0] == everything[0]


def test_a_page_that_scrolls_under_a_resting_pointer_is_not_caught(show):
    view = show(transformer_step(4))
    everything = view.range
    view.page.evaluate("document.body.style.paddingBottom = '3000px'")
    prevented = view.canvas.evaluate(
        """(canvas) => !canvas.dispatchEvent(
             new WheelEvent("wheel", { deltaY: -200, cancelable: true, bubbles: true }))"""
    )
    assert not prevented
    assert view.range == everything


def test_the_keyboard_pans_zooms_and_resets(show):
    view = show(transformer_step(4))
    everything = view.range
    view.press("+", "+", "+")
    assert view.seen == pytest.approx((everything[1] - everything[0]) * 0.7**3, rel=1e-3)
    start = view.range[0]
    view.press("Shift+ArrowRight")
    assert view.range[0] > start
    view.press("Shift+ArrowLeft")
    assert view.range[0] == pytest.approx(start, abs=0.01)
    view.press("-")
    assert view.seen == pytest.approx((everything[1] - everything[0]) * 0.7**2, rel=1e-3)
    view.press("Home")
    assert view.range == everything


def test_enter_steps_through_events_and_tells_a_screen_reader(show):
    timeline = transformer_step(1, layers=1)
    view = show(timeline)
    live = view.page.locator("[aria-live]")
    heard = []
    for _ in range(3):
        view.press("Enter")
        heard.append(live.inner_text())
    assert heard[0].startswith("launch: cudaLaunchKernel")
    assert heard[1].startswith("host sync: cudaStreamSynchronize")
    assert heard[2].startswith("pageable upload: Memcpy HtoD")
    assert "launched by cudaLaunchKernel" in heard[2]
    assert "before.py:41, torch.tensor(spans, device=device)" in heard[2]
    view.press("Shift+Enter")
    assert live.inner_text() == heard[1]
    view.press("Escape")
    assert view.root.get_attribute("data-selected") == ""


def test_stepping_shows_what_it_steps_to_and_ends_at_the_last(show):
    timeline = transformer_step(4)
    view = show(timeline)
    for _ in range(len(timeline.events) + 1):
        view.page.evaluate(
            """document.querySelector("canvas").dispatchEvent(
                 new KeyboardEvent("keydown", { key: "Enter" }))"""
        )
    view.settle()
    assert view.page.locator("[aria-live]").inner_text() == "No more events."
    last = max(event.start for event in timeline.events) - 10
    assert view.range[0] <= last <= view.range[1]


def test_b_steps_through_bubbles_with_their_cause_and_line(show):
    view = show(transformer_step(1, layers=1))
    heard = []
    for _ in range(2):
        view.press("b")
        heard.append(view.page.locator("[aria-live]").inner_text())
    assert heard[0].startswith("bubble: waiting for a copy, 1.6 µs, before.py:41")
    assert heard[1].startswith("bubble: waiting for the host")


def test_tab_is_no_trap(show):
    view = show(transformer_step(1))
    view.canvas.focus()
    view.page.keyboard.press("Shift+Tab")
    assert view.page.evaluate("document.activeElement.tagName") == "BUTTON"
    view.page.keyboard.press("Tab")
    assert view.page.evaluate("document.activeElement.tagName") == "CANVAS"
    ring = view.canvas.evaluate("(canvas) => getComputedStyle(canvas).outlineStyle")
    assert ring == "solid"
    view.page.keyboard.press("Tab")
    assert view.page.evaluate("document.activeElement.tagName") != "CANVAS"


def test_hovering_tells_name_duration_line_and_launch(show):
    recording = Recording()
    call = recording.launch(0, 4)
    recording.kernel(10, 60, call, name="unified_attention")
    recording.kernel(100, 140, recording.launch(90, 95))
    view = show(recording.timeline)
    tip = view.page.locator(".tip")
    assert tip.is_hidden()
    view.move(view.x_of(30), STREAM_Y)
    words = tip.inner_text()
    assert "kernel: unified_attention" in words and "50.0 µs" in words
    assert "launched by cudaLaunchKernel, 10.0 µs before it ran" in words
    assert "attention.py:88" in words and "kernel[grid](query, key)" in words
    view.move(view.x_of(80), STREAM_Y)
    assert tip.inner_text().startswith("bubble: waiting for the host")
    view.move(view.x_of(80), IDLE_Y)
    assert tip.inner_text().startswith("bubble: waiting for the host")
    view.move(view.x_of(2), HOST_Y)
    assert tip.inner_text().startswith("launch: cudaLaunchKernel")
    view.move(40, STREAM_Y)
    assert tip.is_hidden()


@pytest.mark.parametrize(("width", "height"), [(1000, 300), (400, 430)])
def test_what_is_told_is_never_cut_off(show, width, height):
    """A tooltip is cut off neither by a small output area nor by the edge of the window."""
    recording = Recording()
    recording.kernel(0, 10, recording.launch(0, 4), name="a_kernel_with_a_long_name_" * 8)
    recording.kernel(490, 500)
    view = show(recording.timeline)
    page, tip = view.page, view.page.locator(".tip")
    page.set_viewport_size({"width": width, "height": height})
    area = f"position: fixed; inset: auto 0 0 0; height: {height - 100}px; overflow: hidden"
    page.evaluate("(style) => document.querySelector('#here').setAttribute('style', style)", area)
    view.settle()
    for at in (5, 495, 250):
        view.move(view.x_of(at), STREAM_Y)
        box = tip.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        assert box["y"] >= 0 and box["y"] + box["height"] <= height
        assert box["y"] + box["height"] <= view.canvas.bounding_box()["y"] + STREAM_Y
        assert tip.evaluate("(tip) => tip.matches(':popover-open')")  # above all boxes
        assert tip.evaluate("(tip) => tip.scrollHeight <= tip.clientHeight")  # not scrolled


def test_what_is_told_stays_at_its_event_while_the_page_scrolls(show):
    recording = Recording()
    recording.kernel(10, 100, recording.launch(0, 4))
    view = show(recording.timeline)
    view.page.evaluate("document.body.style.height = '3000px'")
    view.move(view.x_of(30), STREAM_Y)
    before = view.page.locator(".tip").bounding_box()["y"]
    view.page.evaluate("scrollTo(0, 40)")
    view.settle()
    assert view.page.locator(".tip").bounding_box()["y"] == pytest.approx(before - 40, abs=1)
    view.page.evaluate("scrollTo(0, 2000)")
    view.settle()
    assert view.page.locator(".tip").is_hidden()


def test_names_from_the_recording_are_text_and_never_markup(show):
    recording = Recording()
    recording.kernel(0, 10, name="<img src=x onerror=console.log(1)>")
    view = show(recording.timeline)
    view.move(view.x_of(5), STREAM_Y - 40)
    view.page.get_by_role("button", name="table").click()
    view.settle()
    assert view.page.locator("img").count() == 0
    assert "<img src=x" in view.page.locator(".table").inner_text()


def test_the_table_holds_what_is_in_view(show):
    timeline = transformer_step(4)
    listed = len(timeline.events) + len(timeline.bubbles())
    view = show(timeline)
    button = view.page.get_by_role("button", name="Show the events as a table")
    assert button.get_attribute("aria-pressed") == "false"
    assert view.page.locator("table").count() == 0
    button.click()
    view.settle()
    assert button.get_attribute("aria-pressed") == "true"
    caption = view.page.locator("caption")
    assert f"1 to 100 of {listed} (sim, modelled on" in caption.inner_text()
    assert view.page.locator("tbody tr").count() == 100
    later_pages, last_page = divmod(listed - 1, 100)
    for _ in range(later_pages):
        view.page.get_by_role("button", name="Later events").click()
        view.settle()
    focused = view.page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == "Earlier events", "the last page has no later one"
    assert view.page.locator("tbody tr").count() == last_page + 1
    view.wheel(500, STREAM_Y, -300, times=10)
    assert view.page.locator("tbody tr").count() < 10
    button.click()
    view.settle()
    assert view.page.locator(".table").is_hidden()


def test_the_table_holds_bubbles_where_they_begin(show):
    recording = Recording()
    recording.kernel(10, 60, recording.launch(0, 4))
    recording.kernel(100, 140, recording.launch(90, 95))
    view = show(recording.timeline)
    view.page.get_by_role("button", name="Show the events as a table").click()
    view.settle()
    rows = [row.inner_text() for row in view.page.locator("tbody tr").all()]
    assert len(rows) == 5
    start, duration, lane, what, line = rows[2].split("\t")
    assert (start, duration, lane) == ("60.0 µs", "40.0 µs", "idle")
    assert what == "bubble: waiting for the host" and "attention.py" in line
    view.page.locator("tbody tr").nth(2).click()
    assert "bubble: waiting for the host, 40.0 µs" in view.page.get_by_role("status").inner_text()


def test_a_screen_reader_hears_counts_and_idle_shares_before_and_after(show):
    view = show(transformer_step(0), before=transformer_step(4))
    label = view.canvas.get_attribute("aria-label")
    assert "sim, modelled on NVIDIA H200" in label
    assert "32 → 0 host syncs" in label
    assert "Device idle 3% of" in label
    assert "before: device idle 27% of" in label


@pytest.mark.parametrize(
    ("modelled", "says", "axis"),
    [(True, "sim, modelled on NVIDIA H200", "dashed"), (False, "measured on NVIDIA H200", "solid")],
)
def test_the_badge_always_says_modelled_or_measured(show, modelled, says, axis):
    view = show(transformer_step(1, modelled=modelled))
    badge = view.page.locator(".badge")
    assert badge.inner_text() == says
    assert badge.evaluate("(badge) => getComputedStyle(badge).borderTopStyle") == axis
    view.wheel(500, STREAM_Y, -300, times=10)
    assert badge.is_visible()


def test_a_long_badge_is_never_cut_off(show):
    view = show(transformer_step(1))
    view.page.set_viewport_size({"width": 320, "height": 600})
    lengthen = "(node) => (node.textContent = 'measured on a GPU, '.repeat(9))"
    view.page.locator(".badge").evaluate(lengthen)
    view.settle()
    badge = view.page.locator(".badge").bounding_box()
    assert badge["x"] + badge["width"] <= 320
    assert badge["height"] > 30, "in several rows"


def test_the_legend_gives_idle_shares_by_cause(show):
    view = show(transformer_step(0), before=transformer_step(4))
    before, after = view.page.locator(".share").all_inner_texts()
    assert re.search(r"idle 27% of 1\.8. ms", before) and "waiting for the host 2" in before
    assert "waiting for the host" not in after
    assert "waiting for a copy <1%" in after


def test_the_ghost_lies_behind_and_goes_with_an_update(show):
    after, before = transformer_step(0), transformer_step(4)
    view = show(after)
    kernel = EVENT_STYLES["kernel"][1]
    assert kernel in view.colours()
    alone = ghost_pixels(view)
    view.update(after, before)
    assert kernel in view.colours()
    assert ghost_pixels(view) > alone + 5000
    view.update(after)
    assert ghost_pixels(view) == alone


def ghost_pixels(view) -> int:
    """Returns how many pixels of the canvas have the low opacity that only a ghost and a bubble's
    band have."""
    opacity = view.image()[..., 3]
    return int(((opacity > 55) & (opacity < 90)).sum())


def test_an_update_redraws_and_keeps_what_was_zoomed_to(show):
    view = show(transformer_step(4))
    view.wheel(300, STREAM_Y, -200, times=3)
    zoomed = view.range
    view.update(transformer_step(2))
    assert view.range == zoomed
    assert "16 host syncs" in view.page.locator(".counts").inner_text()
    view.press("Home")
    view.update(transformer_step(4, layers=16))
    assert view.range[1] > 3000


def test_the_theme_is_followed_while_the_page_is_open(show):
    from .timeline_page import DARK, LIGHT

    view = show(transformer_step(4))
    _, light, dark = EVENT_STYLES["kernel"]
    assert light in view.colours() and dark not in view.colours()
    view.theme(DARK)
    assert dark in view.colours() and light not in view.colours()
    view.theme(LIGHT)
    assert light in view.colours()


def test_twenty_thousand_events_need_no_more_marks_than_pixels(show):
    _, marks, width = frames_of_twenty_thousand_events(show, 8)
    # Each recording has two marks a pixel for launches, copies, syncs, kernels, and one for
    # bubbles.
    assert max(marks) <= 2 * 10 * width


@pytest.mark.deep
def test_twenty_thousand_events_stay_fluid(show):
    frames, _, _ = frames_of_twenty_thousand_events(show, 40)
    # The quicker frames: what else runs on the machine slows some of them.
    assert frames[len(frames) // 4] <= 12, f"a quarter of the frames takes {frames[:10]} ms"


def frames_of_twenty_thousand_events(show, count: int) -> tuple[list[float], list[int], float]:
    """Draws `count` frames, each after a key. Returns their sorted times in milliseconds, their
    numbers of marks, and the width in pixels."""
    timeline = transformer_step(10, layers=530)
    assert len(timeline.events) > 20_000
    view = show(timeline, before=timeline)
    frames, marks = view.page.evaluate(
        """async (count) => {
        const canvas = document.querySelector("canvas");
        const root = document.querySelector(".debubble-timeline");
        canvas.focus();
        const drawn = [], marks = [];
        const keys = ["+", "ArrowRight", "ArrowLeft", "+", "ArrowRight", "-", "ArrowLeft", "-"];
        for (let i = 0; i < count; i++) {
          const key = keys[i % keys.length];
          canvas.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey: key.length > 1 }));
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          drawn.push(Number(root.dataset.drawMs));
          marks.push(Number(root.dataset.marks));
        }
        return [drawn.sort((a, b) => a - b), marks];
        }""",
        count,
    )
    return frames, marks, view.canvas.bounding_box()["width"]


def test_marks_are_as_many_as_pixels_and_not_as_events(show):
    def marks(layers):
        view.update(transformer_step(10, layers=layers))
        view.press("Home")
        return int(view.root.get_attribute("data-marks"))

    view = show(transformer_step(1))
    width = view.canvas.bounding_box()["width"]
    assert marks(60) <= 10 * width and marks(530) <= 10 * width and marks(1500) <= 10 * width


def test_events_that_share_a_pixel_do_not_hide_the_rare_one(show):
    recording = Recording()
    for number in range(20_000):
        recording.kernel(10 * number, 10 * number + 9)
    recording.copy(100_000, 100_001, "d2h", stream=1)
    view = show(recording.timeline)
    red, green, blue, _ = np.moveaxis(view.image().astype(int), -1, 0)
    purple = (red > green + 60) & (blue > green + 20)
    assert purple.sum() > 10


def test_a_lane_is_drawn_as_busy_as_it_was_at_any_width_and_zoom(show):
    """The drawn share of busy time is right within 2 hundredths in each hundredth of the axis,
    although short kernels don't fill whole pixels."""
    from .timeline_page import GUTTER, RIGHT

    chance = np.random.default_rng(5)
    lengths = chance.choice([0.05, 0.6, 4.0, 30.0], 20_000, p=[0.6, 0.3, 0.09, 0.01])
    # The lane is busy at first, then less and less.
    gaps = lengths * chance.exponential(np.linspace(0.02, 20, 20_000))
    starts = np.cumsum(lengths + gaps) - lengths
    recording = Recording()
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        recording.kernel(start, start + length)
    recording.kernel(starts[0], starts[-1] + lengths[-1], stream=1)  # keeps the device busy
    view = show(recording.timeline)
    starts = starts - starts[0]
    for width in (1600, 1000, 420):
        view.page.set_viewport_size({"width": width, "height": 600})
        view.press("Home")
        for _ in range(3):
            # The grid has a part of the canvas' opacity; nothing else is above the
            # kernels.
            grid, drawn = view.image()[[26, 40], GUTTER:-RIGHT, 3] / 255
            drawn = (drawn - grid) / (1 - grid)
            # Hundredths end at pixel borders.
            places = np.linspace(0, len(drawn), 101).round().astype(int)
            edges = view.range[0] + places / view.scale
            times = np.concatenate([[-1e9], np.ravel([starts, starts + lengths], "F"), [1e9]])
            busy = np.concatenate([[0], np.ravel([lengths * 0, lengths], "F").cumsum(), [0]])
            busy[-1] = busy[-2]
            true = np.diff(np.interp(edges, times, busy)) / np.diff(edges)
            pixels = np.concatenate([[0], drawn.cumsum()])
            shown = np.diff(pixels[places]) / np.diff(places)
            assert np.abs(shown - true).max() <= 0.02
            view.press("+", "+", "+")


def test_the_time_from_end_to_end_leads_and_says_what_became_of_it(show):
    """The headline begins with the time from end to end, and says how many times as quick it is as
    before. (The share of idle time can grow although the whole got six times as fast.)"""
    slow, quick = Recording(), Recording()
    slow.kernel(0, 676)
    quick.kernel(0, 10, quick.launch(0, 4))
    quick.kernel(98, 108)
    view = show(quick.timeline, before=slow.timeline)
    first = view.root.inner_text().split("sim, modelled")[1]
    words = view.page.locator(".headline").inner_text()
    assert words == "108.0 µs end to end, before 676.0 µs: 6.26 × as quick"
    assert first.index(words) < first.index("idle")
    assert "108.0 µs end to end (before: 676.0 µs; 6.26" in view.canvas.get_attribute("aria-label")
    view.update(slow.timeline, quick.timeline)
    assert "6.26 × as long" in view.page.locator(".headline").inner_text()


def loaded_by(microseconds, then):
    """Returns a recording of a sleep kernel of `microseconds` that keeps the stream busy, and of a
    kernel that ends `then` microseconds after it."""
    recording = Recording()
    end = float(microseconds)
    recording.kernel(0, end, recording.launch(0, 1), name="sleep")
    recording.kernel(end + 1, end + then, recording.launch(2, 3))
    return recording.timeline


def test_a_load_in_front_is_named_and_is_no_part_of_the_time(show):
    view = show(loaded_by(900, 100), before=loaded_by(800, 300))
    assert view.page.locator(".headline").inner_text() == (
        "100.0 µs end to end behind a load of 900.0 µs, before 300.0 µs: 3.00 × as quick"
    )
    other = Recording()
    other.kernel(0, 10)
    view.update(loaded_by(900, 100), other.timeline)
    words = view.page.locator(".headline").inner_text()
    assert words.endswith("before 10.0 µs: with a different load")


def test_a_ghost_answers_the_pointer_where_it_stands_out(show):
    view = show(*before_and_after())
    tip = view.page.locator(".tip")
    view.move(view.x_of(30), STREAM_Y + 5)
    assert tip.inner_text().startswith("kernel: short")
    view.move(view.x_of(30), GHOST_Y)
    assert tip.inner_text().startswith("before: kernel: long")
    assert "launched by cudaLaunchKernel" in tip.inner_text()
    view.move(view.x_of(180), STREAM_Y + 5)  # the recording `after` has nothing there
    assert tip.inner_text().startswith("before: kernel: long")
    view.move(view.x_of(250), IDLE_Y - 8)
    assert tip.inner_text().startswith("before: bubble: waiting for the host")


GHOST_Y = 92


def before_and_after():
    """Returns two recordings, (after, before). `after` has a short kernel at 10 µs; `before` has a
    long kernel at 10 µs, and a second one after a bubble."""
    before, after = Recording(), Recording()
    before.kernel(10, 200, before.launch(0, 4), name="long")
    before.kernel(300, 340, before.launch(290, 295), name="second")
    after.kernel(10, 130, after.launch(0, 4), name="short")
    return after.timeline, before.timeline


STACKED_ROWS = 128
"""The height of the rows host, queue, stream 0 and idle, which a stacked recording has above the
other."""


def test_a_recording_that_took_much_longer_is_stacked_above_and_each_row_answers_for_itself(show):
    before, after = Recording(), Recording()
    before.kernel(10, 900, before.launch(0, 4), name="long")
    after.kernel(10, 60, after.launch(0, 4), name="short")
    view = show(after.timeline, before.timeline)
    tip = view.page.locator(".tip")
    for below, words in ((0, "before: kernel: long"), (STACKED_ROWS, "kernel: short")):
        view.move(view.x_of(30), STREAM_Y + below)
        assert tip.inner_text().startswith(words)
    view.move(view.x_of(500), STREAM_Y + STACKED_ROWS)
    assert not tip.is_visible()
    alone = view.canvas.bounding_box()["height"]
    view.update(after.timeline)
    assert view.canvas.bounding_box()["height"] == alone - STACKED_ROWS


def test_keys_search_and_table_can_ask_the_ghost(show):
    view = show(*before_and_after())
    live = view.page.locator("[aria-live]")
    view.press("Enter", "Enter")
    assert live.inner_text().startswith("kernel: short")
    view.press("g", "Enter", "Enter")
    assert live.inner_text().startswith("before: kernel: long, 190.0 µs")
    assert view.root.get_attribute("data-selected") == "before events 1"
    view.press("b")
    assert live.inner_text().startswith("before: bubble")
    view.press("Home")
    view.page.get_by_role("button", name="Show the events as a table").click()
    view.settle()
    assert "(before, sim, modelled" in view.page.locator("table caption").inner_text()
    assert view.page.locator("tbody tr").count() == 5
    view.page.get_by_role("button", name="Use the recording before").click()
    view.settle()
    assert view.page.locator("tbody tr").count() == 2


def test_without_a_ghost_nothing_offers_to_ask_it(show):
    view = show(transformer_step(1))
    assert view.page.get_by_role("button", name="Use the recording before").count() == 0
    view.press("g")
    assert "no earlier recording" in view.page.locator("[aria-live]").inner_text()


def sums_of(view) -> dict[str, list[str]]:
    rows = view.page.locator(".sums tbody tr").all()
    return {cells[0]: cells[1:] for cells in (row.inner_text().split("\t") for row in rows)}


def test_an_area_is_marked_along_the_axis_and_added_up(show):
    recording = Recording()
    recording.kernel(0, 60, recording.launch(0, 4))
    recording.kernel(100, 140, recording.launch(90, 95))
    recording.kernel(140, 400)
    view = show(recording.timeline)
    box = view.canvas.bounding_box()
    left, right = view.x_of(50), view.x_of(120)
    everything = view.range
    view.move(left, 8)
    view.page.mouse.down()
    view.page.mouse.move(box["x"] + right, box["y"] + 8, steps=4)
    view.page.mouse.up()
    view.settle()
    assert view.range == everything, "it does not pan"
    found = sums_of(view)
    assert microseconds(found["device computes"][1]) == pytest.approx(30, abs=0.6)
    assert microseconds(found["device idle"][1]) == pytest.approx(40, abs=0.6)
    assert found["idle: waiting for the host"][0] == "1"
    assert found["kernel"][0] == "2"
    assert microseconds(found["kernel"][1]) == pytest.approx(30, abs=0.6)
    assert (found["launch"][0], microseconds(found["launch"][1])) == ("1", 5.0)
    assert "70" in view.page.locator(".sums caption").inner_text()
    view.press("Escape")
    assert view.page.locator(".sums").is_hidden()


def microseconds(text: str) -> float:
    assert text.endswith(" µs")
    return float(text.removesuffix(" µs"))


def test_the_keyboard_adds_up_what_is_seen_before_beside_after(show):
    view = show(*before_and_after())
    view.press("s")
    assert sums_of(view)["kernel"] == ["2", "230.0 µs", "1", "120.0 µs"]
    assert sums_of(view)["device idle"][1] == "100.0 µs"
    said = view.page.locator("[aria-live]").inner_text()
    assert "340.0 µs marked" in said and "device computes 230.0 µs" in said
    view.page.get_by_role("button", name="Clear the marked area").click()
    assert view.page.locator(".sums").is_hidden()


def test_sums_of_everything_are_what_the_recording_says(show):
    timeline = transformer_step(4)
    view = show(timeline)
    view.press("s")
    idle = timeline.idle_share() * timeline.span
    found = sums_of(view)
    assert found["device idle"][1] == f"{idle:.1f} µs"
    assert found["device computes"][1] == f"{(timeline.span - idle) / 1000:.2f} ms"
    assert found["kernel"][0] == "32" and found["host sync"][0] == "32"


def test_a_search_counts_marks_lists_and_steps_through_what_it_finds(show):
    timeline = transformer_step(4)
    view = show(timeline)
    field = view.page.get_by_role("searchbox")
    view.page.get_by_role("button", name="Show the events as a table").click()
    field.fill("attention kernel:")
    assert view.page.locator(".found").inner_text() == "nothing found"
    field.fill("KERNEL mlp")
    view.settle()
    mlps = sum(event.name == "mlp" for event in timeline.events)
    found = view.page.locator(".found").inner_text()
    assert found == f"{mlps} of {len(timeline.events)} events, {60 * mlps:.1f} µs"
    assert view.page.locator("tbody tr").count() == mlps
    heard = []
    for _ in range(mlps + 1):
        field.press("Enter")
        heard.append(view.page.locator("[aria-live]").inner_text())
    assert all(words.startswith("kernel: mlp") for words in heard[:-1])
    assert heard[-1] == "No more events."
    field.fill("before.py:41")
    view.press("Home")
    found = view.page.locator(".found").inner_text()
    assert found.startswith("96 of") and "bubbles" in found, "lines are searched, and idle time"
    field.press("Escape")
    view.settle()
    assert view.page.locator(".found").inner_text() == ""


def test_what_is_found_is_marked_and_no_pixel_twice(show):
    recording = Recording()
    for number in range(20_000):
        recording.kernel(10 * number, 10 * number + 9, name="many" if number % 2 else "other")
    view = show(recording.timeline)
    alone = int(view.root.get_attribute("data-marks"))
    view.page.get_by_role("searchbox").fill("many")
    view.settle()
    width = view.canvas.bounding_box()["width"]
    assert alone < int(view.root.get_attribute("data-marks")) <= alone + width


def test_a_shared_axis_makes_lengths_comparable(show):
    view = show(transformer_step(1, layers=2))
    alone = view.seen
    view.widget._axis = 10 * alone
    view.update(transformer_step(1, layers=2))
    assert view.seen == pytest.approx(10 * alone * 1.016, rel=1e-3)


def test_an_empty_timeline_can_be_shown(show):
    view = show(Recording().timeline)
    view.press("Enter", "b", "+", "Home")
    assert "nothing recorded" in view.canvas.get_attribute("aria-label")


def test_a_removed_view_stops_listening(show):
    view = show(transformer_step(1))
    assert view.page.evaluate("window.timeline.listeners.length") == 2
    view.page.evaluate("window.timeline.remove()")
    assert view.page.evaluate("window.timeline.listeners.length") == 0


def served(with_steps=True):
    """Returns a recording of a prompt and a decode: the host is ahead of the device, then waits for
    it."""
    recording = Recording()
    first = recording.launch(0, 4)
    second = recording.launch(5, 9)
    recording.sync(12, 90)
    third = recording.launch(100, 104)
    recording.kernel(10, 50, first, name="gemm")
    recording.kernel(50, 80, second, name="softmax")
    recording.kernel(110, 140, third, name="gemm")
    if with_steps:
        recording.timeline.steps += [
            Step("prompt of 24 tokens with 1 image", 0, 91),
            Step("3 decodes", 99, 105),
        ]
    return recording.timeline


STEPS_ROW = 38


def test_steps_have_names_and_say_when_host_and_device_are_at_them(show):
    view = show(served())
    tip = view.page.locator(".tip")
    host_y, device_y = 34, 54
    view.move(view.x_of(40), host_y)
    assert tip.inner_text().splitlines() == [
        "step: prompt of 24 tokens with 1 image",
        "host: 91.0 µs, from 0.0 µs to 91.0 µs",
        "device: 70.0 µs, from 10.0 µs to 80.0 µs",
    ]
    view.move(view.x_of(102), host_y)
    assert tip.inner_text().startswith("step: 3 decodes")
    view.move(view.x_of(130), device_y)
    assert tip.inner_text().startswith("step: 3 decodes")
    view.move(view.x_of(95), device_y)
    assert not tip.is_visible()
    height = view.canvas.bounding_box()["height"]
    view.update(served(with_steps=False))
    assert view.canvas.bounding_box()["height"] == height - STEPS_ROW


def test_the_queue_says_how_many_launches_wait_at_each_moment(show):
    view = show(served(with_steps=False))
    tip = view.page.locator(".tip")
    for moment, waiting in ((9.5, 2), (30, 1), (70, 0), (107, 1)):
        view.move(view.x_of(moment), QUEUE_Y)
        assert tip.inner_text().startswith(f"queue: {waiting} launch")


def test_a_graph_in_the_queue_is_one_launch(show):
    recording = Recording()
    graph = recording.host("graph_launch", 0, 5)
    for number in range(20):
        recording.kernel(10 + 10 * number, 19 + 10 * number, graph)
    view = show(recording.timeline)
    for moment, waiting in ((8, "1 launch waits"), (100, "0 launches wait")):
        view.move(view.x_of(moment), QUEUE_Y)
        assert view.page.locator(".tip").inner_text().startswith(f"queue: {waiting}")


def test_a_launch_leads_to_what_it_started_and_back(show):
    view = show(served(with_steps=False))
    tip = view.page.locator(".tip")
    far = view.x_of(120), STREAM_Y
    view.move(view.x_of(120), IDLE_Y + 40)
    before = view.image()
    view.move(view.x_of(102), HOST_Y + 8)
    assert "started 1 kernel or copy, which ran 10.0 µs later" in tip.inner_text()
    changed = (view.image() != before).any(-1)
    assert changed[66:86].any()  # the arrow crosses the row of the queue
    view.move(*far)
    assert "launched by cudaLaunchKernel, 10.0 µs before it ran" in tip.inner_text()
    assert (view.image() != before).any(-1)[66:86].any()


def test_arrows_step_through_what_host_queue_and_device_do(show):
    view = show(served())
    stepper = view.page.locator(".stepper")
    assert not stepper.is_visible()
    seen = []
    for _ in range(8):
        view.press("ArrowRight")
        host, queue, device = stepper.locator(".panel").all_inner_texts()
        seen.append([part.split("\n")[1] for part in (host, queue, device)])
        assert stepper.locator("[aria-current]").count() == 1
    hosts, queues, devices = zip(*seen, strict=True)
    assert hosts[0] == "launches cudaLaunchKernel" and hosts[3].startswith("waits: cuda")
    assert [words.split()[0] for words in queues] == ["empty", *"111", *["empty"] * 4]
    assert devices[2] == "kernel gemm" and devices[4] == "kernel softmax"
    assert "idles: it waits for the host" in devices[5]
    assert "No more events." in view.page.locator("[aria-live]").inner_text()
    for _ in range(3):
        view.press("ArrowLeft")
    assert "waits: cuda" in stepper.locator(".panel").first.inner_text()
    assert "sampler.py:7" in stepper.locator(".lit").inner_text()
    view.page.get_by_role("button", name="Step through").click()
    assert not stepper.is_visible()


def test_a_long_load_is_left_out_of_the_first_view_and_can_be_shown(show):
    recording = Recording()
    recording.kernel(0, 10_000, recording.launch(0, 4), name="sleep")
    for number in range(60):
        call = recording.launch(100 + 10 * number, 104 + 10 * number)
        recording.kernel(10_000 + 20 * number, 10_018 + 20 * number, call)
    view = show(recording.timeline)
    assert 9_900 < view.range[0] < 10_000 and view.range[1] > 11_190
    button = view.page.get_by_role("button", name="Show the whole recording")
    button.click()
    view.settle()
    assert view.range[0] < 0 and button.inner_text() == "Hide the load"
    button.click()
    view.settle()
    assert view.range[0] > 9_900 and button.inner_text() == "Show all"


def test_a_load_that_is_the_subject_is_shown(show):
    recording = Recording()
    recording.kernel(0, 2_000, recording.launch(0, 4), name="sleep")
    recording.copy(2_000, 3_000, launched_by=recording.launch(5, 9))
    assert show(recording.timeline).range[0] < 0


def test_a_question_is_answered_by_a_mark_on_its_timeline(show):
    field = StretchField(5, {"the first kernel": (0, 2)})
    view = show(field)
    assert not view.page.locator(".tools").is_visible()
    box = view.canvas.bounding_box()
    view.move(view.x_of(2000), IDLE_ALONE)
    view.page.mouse.down()
    view.page.mouse.move(box["x"] + view.x_of(3250), box["y"] + IDLE_ALONE, steps=3)
    view.page.mouse.up()
    view.settle()
    assert marked(view) == pytest.approx([2000, 3250], abs=10)
    view.press("ArrowLeft", "ArrowLeft", "Shift+ArrowRight")
    assert marked(view) == pytest.approx([2062.5, 3125], abs=10)
    assert "Your mark: from 2.06 ms to 3.12 ms" in view.page.locator("[aria-live]").inner_text()
    view.press("Enter")
    assert view.page.evaluate("window.sent") == {"event": "submit"}
    before = view.image()
    field.reveal(Stretch(2.0, 3.2), served())
    view.page.evaluate("(state) => window.timeline.update(state)", view.state())
    view.settle()
    assert view.image().shape != before.shape or (view.image() != before).any()
    view.page.evaluate("window.timeline.values.disabled = true")
    view.press("ArrowRight")
    assert marked(view) == pytest.approx([2062.5, 3125], abs=10)


IDLE_ALONE = 76
"""The height of the row idle below a stream alone."""


def marked(view):
    return view.page.evaluate("window.timeline.values.mark")
