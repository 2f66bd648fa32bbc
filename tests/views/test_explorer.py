"""A slider over recordings: its start, its display, and the length of its axis."""

import pytest
from traitlets import TraitError

from debubble.views.controls.slider import Slider
from debubble.views.explorer import Explorer, explore
from tests.timeline.recordings import transformer_step


@pytest.fixture
def explorer():
    return explore("layers", range(1, 6), lambda n: transformer_step(1, layers=n))


def test_it_begins_in_the_middle_where_both_ways_lead_somewhere(explorer):
    assert explorer.slider.value == 3
    assert explorer.timeline.timeline.counts()["kernels"] == 12


def test_it_begins_where_it_is_told_to():
    told = explore("layers", range(1, 6), lambda n: transformer_step(1, layers=n), start=5)
    assert told.slider.value == 5
    with pytest.raises(ValueError, match="start=7: nothing was recorded for it, only for 1, 2"):
        explore("layers", (1, 2), lambda n: transformer_step(1, layers=n), start=7)


def test_all_values_have_the_axis_of_the_longest(explorer):
    longest = transformer_step(1, layers=5).length
    for layers in (1, 5, 2):
        explorer.slider.value = layers
        assert explorer.timeline.timeline.counts()["kernels"] == 4 * layers
        assert explorer.timeline.facts["axis"] == longest


def test_a_ghost_counts_for_the_axis_too():
    pairs = {0: (transformer_step(4), transformer_step(0)), 1: (transformer_step(0),) * 2}
    assert Explorer("fixed", pairs).timeline.facts["axis"] == transformer_step(4).length


def test_values_need_not_be_evenly_spaced():
    assert explore("ms", (0, 1, 8), lambda n: transformer_step(1)).slider.options == [0, 1, 8]


def test_a_slider_refuses_what_is_not_among_its_values():
    slider = Slider("layers", (1, 2), 2)
    with pytest.raises(TraitError, match="layers 3 can't be chosen: one of 1, 2"):
        slider.value = 3


def test_the_text_in_a_notebook_tells_every_value(explorer):
    text = explorer._repr_mimebundle_()[0]["text/plain"]
    assert [line.split(":")[0] for line in text.splitlines()] == [
        f"layers {n}" for n in range(1, 6)
    ]
