"""The Chrome trace: named tracks, arrows from launches, and times that say if they are measured."""

import json

import pytest

from debubble.timeline.event import Step
from debubble.timeline.perfetto import chrome_trace, lane_order
from tests.timeline.recordings import Recording, transformer_step


@pytest.fixture
def trace(tmp_path):
    timeline = transformer_step(2, layers=2)
    timeline.to_perfetto(tmp_path / "trace.json")
    return json.loads((tmp_path / "trace.json").read_text())


def test_every_event_is_a_slice_on_a_named_track(trace):
    timeline = transformer_step(2, layers=2)
    rows = trace["traceEvents"]
    tracks = [row for row in rows if row["name"] == "thread_name"]
    names = {(row["pid"], row["tid"]): row["args"]["name"] for row in tracks}
    slices = [row for row in rows if row["ph"] == "X" and row["cat"] != "bubble"]
    assert [names[row["pid"], row["tid"]] for row in slices] == [
        event.lane for event in timeline.events
    ]
    assert [row["ts"] for row in slices] == [event.start for event in timeline.events]


def test_an_arrow_leads_from_each_launch_to_what_it_started(trace):
    timeline = transformer_step(2, layers=2)
    starts = {row["id"]: row["ts"] for row in trace["traceEvents"] if row["ph"] == "s"}
    ends = {row["id"]: row["ts"] for row in trace["traceEvents"] if row["ph"] == "f"}
    for index, event in enumerate(timeline.events):
        if event.on_device:
            assert starts[index] == timeline.launch_of(event).start
            assert ends[index] == event.start
    assert len(starts) == len(ends) == sum(event.on_device for event in timeline.events)


def test_bubbles_have_a_track_and_name_the_line(trace):
    bubbles = [row for row in trace["traceEvents"] if row.get("cat") == "bubble"]
    assert len(bubbles) == len(transformer_step(2, layers=2).bubbles())
    host = next(row for row in bubbles if row["name"] == "waiting for the host")
    assert "before.py:41" in host["args"]["look at"]


def test_named_steps_have_a_track():
    timeline = transformer_step(1)
    timeline.steps.append(Step("3 decodes", 2.0, 9.0))
    rows = chrome_trace(timeline)["traceEvents"]
    (step,) = [row for row in rows if row.get("cat") == "step"]
    assert (step["name"], step["ts"], step["dur"]) == ("3 decodes", 2.0, 7.0)
    names = {
        (row["pid"], row["tid"]): row["args"]["name"]
        for row in rows
        if row["ph"] == "M" and "tid" in row
    }
    assert names[step["pid"], step["tid"]] == "steps"


def test_modelled_times_are_called_modelled(trace):
    processes = [row for row in trace["traceEvents"] if row["name"] == "process_name"]
    assert all("modelled on NVIDIA H200" in row["args"]["name"] for row in processes)
    assert trace["otherData"]["modelled"] is True
    assert trace["otherData"]["host_syncs"] == 4


def test_an_empty_timeline_is_a_trace_as_well():
    assert chrome_trace(Recording().timeline)["otherData"]["kernels"] == 0


def test_streams_are_ordered_by_number():
    lanes = ["stream 10", "stream 2", "stream 0"]
    assert sorted(lanes, key=lane_order) == ["stream 0", "stream 2", "stream 10"]
