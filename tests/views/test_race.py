"""The race as a cell of a notebook."""

import pytest

from debubble.views.race.widget import Race


def test_it_begins_with_the_programs_of_its_chapter():
    race = Race("00")
    assert race.programs["name"] == "Reading a timeline"
    assert repr(race).startswith("A race of two programs: Reading a timeline\nA training loop")


def test_a_page_without_a_kernel_has_a_place_for_it_and_its_words():
    data, _ = Race("02")._repr_mimebundle_()
    assert 'data-race="02"' in data["text/html"]
    assert data["text/plain"] == repr(Race("02"))
    assert "application/vnd.jupyter.widget-view+json" in data


def test_a_chapter_without_programs_is_refused():
    with pytest.raises(ValueError, match="no race for chapter '9', only for 00, 01"):
        Race("9")
