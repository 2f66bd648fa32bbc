"""The data in a stored notebook for a page without a kernel."""

import base64
import json
import zlib

import numpy as np
import pytest

from debubble.views.embedding import BYTES, MIME, STORING, embed
from debubble.views.explorer import Explorer
from debubble.views.planes import TIMES, from_planes, to_planes
from debubble.views.timeline.packing import unpack
from debubble.views.timeline.widget import TimelineWidget
from tests.timeline.recordings import transformer_step


@pytest.fixture
def storing(monkeypatch):
    monkeypatch.setenv(STORING, "1")


def unpacked(view) -> tuple[dict, list[dict]]:
    """Decodes the data that the view stores for a page without a kernel, as the browser does.
    Returns (its header, the traits of each timeline)."""
    embedded = view._repr_mimebundle_()[0][MIME]
    whole = zlib.decompress(base64.b64decode(embedded["data"]))
    size = int.from_bytes(whole[:4], "little")
    header, columns = json.loads(whole[4 : 4 + size]), whole[4 + size :]
    states = []
    for state in header["states"]:
        facts = {**state["facts"], **header["shared"]}
        found = {name: columns_of(columns, state[name], name, facts) for name in BYTES}
        states.append({"facts": facts, **found})
    return header, states


def columns_of(columns, place, name, facts) -> bytes:
    at, size = place
    what = name.removeprefix("ghost_")
    count = facts["before" if name != what else "after"][what] if size else 0
    return from_planes(columns[at : at + size], count, facts["layout"][what]) if size else b""


def test_a_stored_timeline_holds_all_that_the_live_one_draws_from(storing):
    widget = TimelineWidget(transformer_step(0), transformer_step(4))
    _, (state,) = unpacked(widget)
    assert json.dumps(state["facts"], sort_keys=True) == json.dumps(widget.facts, sort_keys=True)
    for name in BYTES:
        what = name.removeprefix("ghost_")
        layout = widget.facts["layout"][what]
        count = widget.facts["before" if name != what else "after"][what]
        kept, live = (unpack(data, count, layout) for data in (state[name], getattr(widget, name)))
        for column, dtype in layout:
            near = 0.002 if column in TIMES else 0
            assert np.allclose(kept[column], live[column], rtol=0, atol=near), (name, column, dtype)


def test_planes_keep_hours_and_every_launch():
    layout = [("start", "<f8"), ("duration", "<f4"), ("launched_by", "<i4"), ("kind", "u1")]
    columns = [
        np.array([0.0, 7.25, 1e10], "<f8"),
        np.array([0.5, 2e9, 0.0], "<f4"),
        np.array([-1, 2**31 - 1, -1], "<i4"),
        np.array([255, 0, 7], "u1"),
    ]
    data = b"".join(column.tobytes() for column in columns)
    assert from_planes(to_planes(data, 3, layout), 3, layout) == data


def test_a_stored_explorer_holds_the_timeline_of_each_value(storing):
    explorer = Explorer("layers", {n: transformer_step(1, layers=n) for n in (1, 2, 3)})
    header, states = unpacked(explorer)
    assert header["slider"] == {"label": "layers", "options": [1, 2, 3], "value": 2, "unit": ""}
    assert [state["facts"]["after"]["counts"]["kernels"] for state in states] == [4, 8, 12]


def test_a_notebook_that_is_read_and_not_stored_holds_nothing_of_it():
    assert MIME not in TimelineWidget(transformer_step(1))._repr_mimebundle_()[0]


def test_what_is_embedded_is_small():
    states = [TimelineWidget(transformer_step(4, layers=n)).state for n in (10, 11, 12)]
    events = sum(state["facts"]["after"]["events"] for state in states)
    assert len(embed("explorer", {}, states)["data"]) < 12 * events
