"""Sliders over a drawing: what they draw, and what they leave in a notebook."""

from dataclasses import dataclass

import pytest
from traitlets import TraitError

from debubble.views.drawing import Drawing
from debubble.views.rasterise import png_of

SVG = "http://www.w3.org/2000/svg"


@dataclass(frozen=True)
class Square:
    side: int
    times: int = 1

    @property
    def svg(self) -> str:
        shape = f'<rect width="{self.side}" height="{self.side}" fill="#0072b2"/>'
        return f'<svg xmlns="{SVG}" viewBox="0 0 8 8">{shape * self.times}</svg>'

    @property
    def text(self) -> str:
        return f"{self.times} of {self.side}"


@pytest.fixture
def drawing():
    return Drawing(Square, side=("side of a square", (1, 2, 4), 2), times=("how many", (0, 1), 1))


def test_it_begins_with_the_first_values(drawing):
    assert drawing.picture == Square(2, 1)
    assert drawing.children[-1].value == Square(2, 1).svg


def test_each_slider_has_its_label_and_its_values(drawing):
    labels = [slider.description for slider in drawing.sliders.values()]
    assert labels == ["side of a square", "how many"]
    assert drawing.sliders["side"].options == (1, 2, 4)


def test_a_slider_redraws_what_the_page_shows(drawing):
    drawing.sliders["side"].value = 4
    assert drawing.children[-1].value == Square(4, 1).svg
    drawing.sliders["times"].value = 0
    assert drawing.children[-1].value == Square(4, 0).svg


def test_a_page_without_a_kernel_has_the_picture_and_its_words(drawing):
    data, metadata = drawing._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["image/png"] == png_of(Square(2, 1).svg)
    assert data["text/plain"] == repr(drawing) == metadata["image/png"]["alt"] == "1 of 2"


def test_a_first_value_that_cannot_be_chosen_is_refused():
    with pytest.raises(TraitError, match="Invalid selection"):
        Drawing(Square, side=("side", (1, 2), 3))
