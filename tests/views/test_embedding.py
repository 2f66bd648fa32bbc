"""The data in a stored notebook for a page without a kernel."""

import base64
import json
import zlib

import pytest

from debubble.views.embedding import BYTES, MIME, STORING, embed
from debubble.views.explorer import Explorer
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
        found = {name: columns[at : at + size] for name in BYTES for at, size in [state[name]]}
        states.append({"facts": facts, **found})
    return header, states


def test_a_stored_timeline_holds_all_that_the_live_one_draws_from(storing):
    widget = TimelineWidget(transformer_step(0), transformer_step(4))
    _, (state,) = unpacked(widget)
    assert json.dumps(state["facts"], sort_keys=True) == json.dumps(widget.facts, sort_keys=True)
    assert all(state[name] == getattr(widget, name) for name in BYTES)


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
    assert len(embed("explorer", {}, states)["data"]) < 25 * events
