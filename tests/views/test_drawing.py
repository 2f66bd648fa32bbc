"""Sliders over a drawing: the drawn picture, and the output that stays in a notebook."""

import base64
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from io import BytesIO

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from traitlets import TraitError

from debubble.views.drawing import Drawing, img_of, png_of

BLUE, WHITE = (0, 114, 178), (255, 255, 255)


@dataclass(frozen=True)
class Square:
    side: int
    times: int = 1

    @property
    def figure(self) -> Figure:
        """Returns a square figure with sides of `side` inches, white if `times` is 0 and blue
        otherwise."""
        colour = "#0072b2" if self.times else "#ffffff"
        return Figure((self.side, self.side), 50, facecolor=colour, label=f'"{self.side}"')

    @property
    def text(self) -> str:
        return f"{self.times} of {self.side}"


@pytest.fixture
def drawing():
    return Drawing(Square, side=("side of a square", (1, 2, 4), 2), times=("how many", (0, 1), 1))


def shown(drawing):
    """Returns ((width, height) of the picture that the drawing shows, in pixels, (red, green, blue)
    at its middle)."""
    (png,) = re.findall(r'src="data:image/png;base64,(.+?)"', drawing.children[-1].value)
    image = imread(BytesIO(base64.b64decode(png)))
    height, width = image.shape[:2]
    colour = image[height // 2, width // 2, :3] * 255
    return (width, height), tuple(colour.round().astype(int).tolist())


def test_it_begins_with_the_first_values(drawing):
    assert drawing.picture == Square(2, 1)
    assert shown(drawing) == ((100, 100), BLUE)


def test_each_slider_has_its_label_and_its_values(drawing):
    labels = [slider.label for slider in drawing.sliders.values()]
    assert labels == ["side of a square", "how many"]
    assert drawing.sliders["side"].options == [1, 2, 4]


def test_a_slider_redraws_what_the_page_shows(drawing):
    drawing.sliders["side"].value = 4
    assert shown(drawing) == ((200, 200), BLUE)
    drawing.sliders["times"].value = 0
    assert shown(drawing) == ((200, 200), WHITE)


def test_the_page_shows_it_in_css_pixels_and_has_its_words():
    image = img_of(Square(2).figure)
    assert 'alt="&quot;2&quot;"' in image and 'width="192"' in image


def test_a_page_without_a_kernel_has_the_picture_and_its_words(drawing):
    data, metadata = drawing._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["image/png"] == png_of(Square(2, 1).figure)
    assert data["text/plain"] == repr(drawing) == metadata["image/png"]["alt"] == "1 of 2"


def test_a_first_value_that_cannot_be_chosen_is_refused():
    with pytest.raises(TraitError, match="side 3 can't be chosen: one of 1, 2"):
        Drawing(Square, side=("side", (1, 2), 3))


LATE = """
import threading
timer = threading.Timer
threading.Timer = lambda seconds, say: timer(0, say)  # A machine on which fonts take long.
import debubble.views.drawing, matplotlib.font_manager
"""


def test_a_machine_that_looks_for_its_fonts_says_nothing(tmp_path):
    """Drawing prints no message about fonts on a machine where matplotlib still has to look for
    them. (The message appeared in red below a reader's first cell.)"""
    done = subprocess.run(
        [sys.executable, "-c", LATE],
        env=os.environ | {"MPLCONFIGDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "font" not in done.stderr
    assert list(tmp_path.glob("fontlist*")), "it looked for them"
