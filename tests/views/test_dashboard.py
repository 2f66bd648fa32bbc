"""The dashboard: a control's run, its display, and what stays if a run fails."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from debubble.views.dashboard import Dashboard
from debubble.views.dashboard.run import Run
from debubble.views.dashboard.settings import Choices
from tests.timeline.recordings import transformer_step

from .held_jobs import SLIDERS, TOGGLES, HeldJobs, run


@pytest.fixture
def jobs():
    return HeldJobs()


@pytest.fixture
def dashboard(jobs):
    """Returns a dashboard with batch 4, 2 layers and nothing on. Its first run is done; later runs
    wait for `jobs.finish()`."""
    made = Dashboard(TOGGLES, SLIDERS, run, start=((), {"batch": 4}), jobs=jobs)
    jobs.held = True
    return made


def layers(dashboard: Dashboard) -> int:
    return dashboard.timeline.timeline.counts()["kernels"] // 4


def row(dashboard: Dashboard, label: str) -> tuple[str, ...]:
    """Returns the cells of the row with this label in the dashboard's table: (before, after,
    change)."""
    rows = [row for group in dashboard.figures.content["groups"] for row in group["rows"]]
    (cells,) = [cells for name, *cells in rows if name == label]
    return tuple(cells)


def test_a_button_switches_exactly_its_toggles_in_one_run(dashboard, jobs):
    begun = jobs.begun
    dashboard.presets["all"].click()
    assert [toggle.value for toggle in dashboard.toggles.values()] == [True, True]
    jobs.finish()
    assert jobs.begun == begun + 1 and dashboard.timeline.timeline.counts()["host_syncs"] == 0
    dashboard.presets["only graph"].click()
    assert [toggle.value for toggle in dashboard.toggles.values()] == [False, True]
    jobs.finish()
    assert dashboard.status.line["text"].startswith("Shown: batch 4, layers 2, on: graph")


def test_the_leading_figure_is_that_of_the_run_before_and_of_this_one(dashboard, jobs):
    assert dashboard.status.leading == ["tokens/s", "", row(dashboard, "tokens/s")[1], ""]
    dashboard.toggles["pinned"].value = True
    jobs.finish()
    before, after, change = row(dashboard, "tokens/s")
    name, *figures, ratio = dashboard.status.leading
    assert (name, *figures) == ("tokens/s", before, after) and change.startswith("+")
    assert float(ratio.removeprefix("× ")) > 1


def test_it_opens_with_its_first_settings_shown(dashboard):
    assert [toggle.value for toggle in dashboard.toggles.values()] == [False, False]
    assert [slider.value for slider in dashboard.sliders.values()] == [4, 2]
    assert layers(dashboard) == 2 and dashboard.timeline.before is None
    assert row(dashboard, "host syncs") == ("–", "8", "")
    assert dashboard.status.line["text"] == "Shown: batch 4, layers 2, nothing on"


def test_a_control_only_hands_its_settings_over_and_says_so(dashboard, jobs):
    dashboard.toggles["pinned"].value = True
    assert jobs.begun == 2
    assert dashboard.timeline.timeline.counts()["host_syncs"] == 8
    assert dashboard.status.line["state"] == "running"
    assert dashboard.status.line["text"] == (
        "Shown: batch 4, layers 2, nothing on\nRunning … switched on “One pinned upload”"
    )


def test_the_run_before_is_ghosted_and_stands_beside_the_new_one(dashboard, jobs):
    before = dashboard.timeline.timeline
    dashboard.toggles["pinned"].value = True
    jobs.finish()
    assert dashboard.timeline.before is before
    assert dashboard.timeline.timeline.counts()["host_syncs"] == 0
    assert row(dashboard, "host syncs") == ("8", "0", "−8")
    assert row(dashboard, "tokens/s")[2].startswith("+")
    assert dashboard.status.line["text"] == (
        "Shown: batch 4, layers 2, on: pinned\nChanged: switched on “One pinned upload”"
    )


def test_of_settings_that_pile_up_only_the_last_are_run(dashboard, jobs):
    for number in (1, 16, 4, 16):
        dashboard.sliders["batch"].value = number
    dashboard.sliders["layers"].value = 8
    assert dashboard.status.line["text"].splitlines() == [
        "Shown: batch 4, layers 2, nothing on",
        "Next … batch 4 → 16; layers 2 → 8 (another run is ending)",
    ]
    jobs.finish()
    assert layers(dashboard) == 2, "the first of them is wanted no more"
    jobs.finish()
    assert layers(dashboard) == 8
    assert dashboard.status.line["text"].endswith("Changed: batch 4 → 16; layers 2 → 8")
    assert jobs.begun == 3, "the start, the first of those settings, and the last"


def old_views(dashboard: Dashboard) -> int:
    """Returns how many of the two views, timeline and table, are marked as older than the
    controls."""
    return sum("debubble-old" in v._dom_classes for v in (dashboard.timeline, dashboard.figures))


def test_a_picture_is_marked_while_the_controls_say_something_else(dashboard, jobs):
    assert old_views(dashboard) == 0 and dashboard.canceller.disabled
    dashboard.sliders["layers"].value = 8
    assert old_views(dashboard) == 2 and not dashboard.canceller.disabled
    jobs.finish()
    assert old_views(dashboard) == 0 and dashboard.canceller.disabled


def test_what_is_cancelled_is_ended_and_never_shown(dashboard, jobs):
    first = dashboard.timeline.timeline
    dashboard.sliders["layers"].value = 8
    dashboard.canceller.click()
    assert dashboard.sliders["layers"].value == 2 and jobs.ended_early == 1
    assert dashboard.status.line["text"] == "Shown: batch 4, layers 2, nothing on"
    jobs.finish()
    assert dashboard.timeline.timeline is first and dashboard.timeline.before is None
    assert jobs.begun == 2


def test_a_value_on_the_way_is_ended_for_the_one_it_leads_to(dashboard, jobs):
    shown = []
    dashboard.timeline.observe(lambda change: shown.append(layers(dashboard)), names="facts")
    for value in (8, 2, 8):
        dashboard.sliders["layers"].value = value
    dashboard.sliders["batch"].value = 16
    assert jobs.ended_early >= 1
    jobs.finish(as_unwanted=True)
    jobs.finish()
    assert shown == [8] and dashboard.status.line["state"] == "shown"


def test_a_run_that_was_ended_and_is_wanted_again_is_run_again(dashboard, jobs):
    dashboard.sliders["layers"].value = 8
    dashboard.sliders["layers"].value = 2
    dashboard.sliders["layers"].value = 8
    jobs.finish(as_unwanted=True)
    assert jobs.begun == 3
    jobs.finish()
    assert layers(dashboard) == 8 and dashboard.status.line["state"] == "shown"


def test_going_back_runs_nothing(dashboard, jobs):
    first = dashboard.timeline.timeline
    dashboard.sliders["layers"].value = 8
    jobs.finish()
    dashboard.sliders["layers"].value = 2
    assert dashboard.timeline.timeline is first
    assert dashboard.timeline.before.counts()["kernels"] == 32
    assert dashboard.status.line["text"].endswith("Changed: layers 8 → 2")
    assert jobs.begun == 2


def test_a_run_that_is_wanted_no_more_is_kept_for_later(dashboard, jobs):
    dashboard.sliders["layers"].value = 8
    dashboard.sliders["layers"].value = 2
    jobs.finish()
    assert layers(dashboard) == 2 and dashboard.timeline.before is None
    dashboard.sliders["layers"].value = 8
    assert layers(dashboard) == 8
    assert jobs.begun == 2


def test_a_run_that_fails_is_a_sentence_and_the_last_good_one_stays(dashboard, jobs):
    shown = dashboard.timeline.timeline
    dashboard.toggles["graph"].value = True
    jobs.finish()
    good = dashboard.timeline.timeline
    dashboard.sliders["batch"].value = 16
    jobs.finish()
    assert dashboard.status.line["state"] == "failed"
    assert dashboard.status.line["text"] == (
        "Shown: batch 4, layers 2, on: graph\n"
        "Failed with batch 16, layers 2, on: graph. ValueError: a graph of 16 requests."
    )
    assert (dashboard.timeline.timeline, dashboard.timeline.before) == (good, shown)
    assert dashboard.sliders["batch"].value == 4, "controls say what is shown"
    assert old_views(dashboard) == 0


def test_what_failed_is_tried_again(dashboard, jobs):
    jobs.held = False
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a graph of 16 requests") as raised:
            dashboard.show(on={"graph"}, batch=16)
        assert "does not fit" in raised.value.__notes__[0], "the traceback is in the note"
    assert jobs.begun == 3


def test_a_failure_of_settings_wanted_no_more_is_not_told(dashboard, jobs):
    dashboard.toggles["graph"].value = True
    jobs.finish()
    dashboard.sliders["batch"].value = 16
    dashboard.sliders["batch"].value = 1
    jobs.finish()
    jobs.finish()
    assert dashboard.status.line["text"].endswith("Changed: batch 4 → 1")


def test_show_sets_the_controls_waits_and_returns_the_run():
    with ThreadPoolExecutor(1) as jobs:
        dashboard = Dashboard(TOGGLES, SLIDERS, run, jobs=jobs)
        shown = dashboard.show(on={"pinned"}, batch=16, layers=8)
        assert shown.timeline is dashboard.timeline.timeline
        assert shown.timeline.counts()["kernels"] == 32
        assert dashboard.toggles["pinned"].value and not dashboard.toggles["graph"].value
        assert [slider.value for slider in dashboard.sliders.values()] == [16, 8]
        dashboard.show(layers=2)
        assert repr(dashboard).startswith(
            "before: batch 16, layers 8, on: pinned\nafter: batch 16, layers 2, on: pinned\n"
        )


def test_show_runs_once_however_many_controls_it_turns(dashboard, jobs):
    jobs.held = False
    dashboard.show(on=TOGGLES, batch=1, layers=8)
    assert jobs.begun == 2


def test_show_says_when_it_has_waited_long_enough():
    ended = threading.Event()

    def slow(on, values):
        if on:
            ended.wait(10)
        return run(on, values)

    with ThreadPoolExecutor(1) as jobs:
        dashboard = Dashboard(TOGGLES, SLIDERS, slow, jobs=jobs)
        with pytest.raises(TimeoutError, match=r"on: pinned: no result after 0\.01 seconds"):
            dashboard.show(on={"pinned"}, seconds=0.01)
        ended.set()
        assert dashboard.show().timeline.counts()["host_syncs"] == 0


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"on": {"pined"}}, "toggle 'pined' is unknown.* did you mean 'pinned'?"),
        ({"batch": 3}, "batch 3 can't be chosen: choose one of 1, 4, 16"),
        ({"layer": 2}, "slider 'layer' is unknown.* did you mean 'layers'?"),
    ],
)
def test_a_choice_that_there_is_not_is_refused(dashboard, choice, sentence):
    with pytest.raises(ValueError, match=sentence):
        dashboard.show(**choice)


def test_settings_name_their_toggles_in_the_dashboards_order():
    toggles = {name: name for name in ("ring", "reads", "tables", "graph", "loads", "cache")}
    for on in ([*toggles], [*reversed(toggles)]):
        assert Choices(toggles, {}).settings(on, {}).on == tuple(toggles)


def test_jobs_that_take_no_more_are_told_of(dashboard, jobs, monkeypatch):
    def closed(job, /, *args):
        raise RuntimeError("cannot schedule new futures after shutdown")

    monkeypatch.setattr(jobs, "submit", closed)
    dashboard.toggles["pinned"].value = True
    assert (
        "RuntimeError: cannot schedule new futures after shutdown" in dashboard.status.line["text"]
    )


def test_what_is_no_run_is_told_of(jobs):
    with pytest.raises(RuntimeError, match="returned a dict, and must return a Run"):
        Dashboard(TOGGLES, SLIDERS, lambda on, values: values, jobs=jobs)


def test_the_button_writes_what_is_shown_for_perfetto(dashboard, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dashboard.exporter.click()
    path = tmp_path / "perfetto-batch-4-layers-2-nothing-on.json"
    assert f"Written for ui.perfetto.dev: {path}" in dashboard.status.line["text"]
    slices = [row for row in json.loads(path.read_text())["traceEvents"] if row["ph"] == "X"]
    events = [slice for slice in slices if slice["cat"] != "bubble"]
    assert len(events) == len(dashboard.timeline.timeline.events)


def test_a_trace_that_cannot_be_written_is_a_sentence(dashboard, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "perfetto-batch-4-layers-2-nothing-on.json").mkdir()
    dashboard.exporter.click()
    assert "could not be written" in dashboard.status.line["text"]
    assert dashboard.status.line["state"] == "shown"


def test_a_notebook_keeps_text_a_picture_and_the_live_view(dashboard):
    data, metadata = dashboard._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert data["image/png"].startswith(b"\x89PNG")
    assert "kernels" in metadata["image/png"]["alt"]


def test_the_text_in_a_notebook_is_the_same_on_every_accelerator():
    def on(modelled, slowness):
        def run(on, values):
            timeline = transformer_step(0 if on else 4, 2, modelled, slowness)
            return Run(timeline, {"step ms": timeline.span}, timeline.label)

        dashboard = Dashboard(TOGGLES, SLIDERS, run, jobs=HeldJobs())
        texts = [repr(dashboard), repr(dashboard.show(on={"pinned"}))]
        return [*texts, dashboard._repr_mimebundle_()[0]["text/plain"]]

    modelled, measured = on(True, 1.0), on(False, 3.3)
    assert modelled == measured
    assert modelled[0].startswith("batch 1, layers 2, nothing on\nTimeline(host_syncs=8, ")
