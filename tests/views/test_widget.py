"""The widget's data for the browser, and its output in a notebook."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from debubble.timeline import Event, Timeline
from debubble.views.timeline.packing import BUBBLE_COLUMNS, EVENT_COLUMNS, KINDS, pack, unpack
from debubble.views.timeline.widget import TimelineWidget
from tests.timeline.recordings import Recording, transformer_step

device_events = st.lists(
    st.builds(
        Event,
        kind=st.sampled_from(["kernel", "memset"]),
        name=st.sampled_from(["gemm", "softmax", "größer"]),
        lane=st.sampled_from(["stream 0", "stream 1", "stream 12"]),
        start=st.floats(0, 1e6),
        duration=st.floats(0, 1e4, width=32),
        bytes=st.integers(0, 1000),
    ),
    max_size=20,
)


@given(device_events)
def test_what_is_packed_can_be_unpacked(events):
    timeline = Timeline("sim", "sim", True, events)
    packed = pack(timeline)
    rows = unpack(packed.events, len(events), EVENT_COLUMNS)
    names, lanes = packed.facts["names"], packed.facts["lanes"]
    assert rows["start"].tolist() == pytest.approx([event.start for event in events], abs=0.002)
    assert rows["duration"].tolist() == [event.duration for event in events]
    assert [names[i] for i in rows["name"]] == [event.name for event in events]
    assert [lanes[i] for i in rows["lane"]] == [event.lane for event in events]
    assert [KINDS[i] for i in rows["kind"]] == [event.kind for event in events]
    assert set(rows["source"]) <= {-1} and set(rows["launched_by"]) <= {-1}
    bubbles = unpack(packed.bubbles, packed.facts["bubbles"], BUBBLE_COLUMNS)
    starts = [bubble.start for bubble in timeline.bubbles()]
    assert bubbles["start"].tolist() == pytest.approx(starts, abs=0.002)


def test_lines_and_launches_are_packed_as_indices():
    timeline = transformer_step(1, layers=1)
    packed = pack(timeline)
    rows = unpack(packed.events, len(timeline.events), EVENT_COLUMNS)
    for index, event in enumerate(timeline.events):
        place, text = packed.facts["sources"][rows["source"][index]]
        assert (place, text) == (event.source.place, event.source.text)
        launch = rows["launched_by"][index]
        assert launch == (-1 if event.launched_by is None else event.launched_by)


def test_columns_start_aligned_for_the_browser():
    widths = [np.dtype(dtype).itemsize for _, dtype in EVENT_COLUMNS]
    assert widths == sorted(widths, reverse=True)


def test_the_state_of_a_chapters_timeline_stays_small():
    timeline = transformer_step(4, layers=12)
    widget = TimelineWidget(timeline)
    state = sum(len(getattr(widget, name)) for name in ("events", "bubbles"))
    state += len(json.dumps(widget.facts))
    assert state < 60 * len(timeline.events)


def test_an_update_changes_everything_in_one_message(monkeypatch):
    before, after = transformer_step(4), transformer_step(0)
    widget = TimelineWidget(before)
    sent = []
    monkeypatch.setattr(widget, "send_state", lambda key=None: sent.append(set(key or ())))
    widget.update(after, before)
    (names,) = [names for names in sent if names]
    assert {"events", "bubbles", "ghost_events", "ghost_bubbles", "facts"} <= names
    assert widget.facts["after"]["counts"]["host_syncs"] == 0
    assert widget.facts["before"]["counts"]["host_syncs"] == 32
    assert (widget.timeline, widget.before) == (after, before)


def test_an_update_without_before_takes_the_ghost_away():
    widget = TimelineWidget(transformer_step(0), transformer_step(4))
    widget.update(transformer_step(0))
    assert widget.ghost_events == b"" and widget.facts["before"] is None


def test_an_update_with_the_same_timeline_still_redraws():
    widget = TimelineWidget(transformer_step(1))
    old = widget.facts
    widget.update(transformer_step(1))
    assert widget.facts != old


def test_a_notebook_keeps_text_a_picture_and_the_live_view():
    data, metadata = TimelineWidget(transformer_step(2))._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert data["image/png"].startswith(b"\x89PNG")
    assert "kernels" in metadata["image/png"]["alt"]


def test_the_text_in_a_notebook_is_the_same_on_every_accelerator():
    texts = [
        TimelineWidget(
            transformer_step(0, modelled=modelled, slowness=slowness),
            before=transformer_step(4, modelled=modelled, slowness=slowness),
        )._repr_mimebundle_()[0]["text/plain"]
        for modelled, slowness in ((True, 1.0), (False, 3.3))
    ]
    assert texts[0] == texts[1]
    assert "µs" not in texts[0]


def test_no_address_of_the_outside_world_is_in_the_browsers_part():
    source = str(TimelineWidget._esm)
    for word in ("http:", "https:", "fetch(", "import ", "import(", "url("):
        assert word not in source


@pytest.mark.parametrize("count", [0, 1])
def test_tiny_timelines_can_be_shown(count):
    recording = Recording()
    for _ in range(count):
        recording.kernel(0, 1)
    assert TimelineWidget(recording.timeline).facts["after"]["events"] == count


def test_more_lanes_than_can_be_drawn_share_the_last_one():
    recording = Recording()
    for stream in range(400):
        recording.kernel(stream, stream + 1, stream=stream)
    packed = pack(recording.timeline)
    lanes = unpack(packed.events, 400, EVENT_COLUMNS)["lane"]
    assert lanes.max() == len(packed.facts["lanes"]) - 1
