"""Sliders over a drawing that is computed again while a handle moves."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Protocol

import ipywidgets
from matplotlib import rc_context

from .controls.slider import Slider
from .embedding import Bundle, Embedded, with_embedding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CSS_PIXELS_PER_INCH = 96
MOST_PICTURES = 9
"""The most pictures for one slider in a page without a kernel."""


IN_THE_DARK = (
    "<style>[data-jp-theme-light=false] .debubble-drawing, .vscode-dark .debubble-drawing "
    "{ filter: invert(0.93) hue-rotate(180deg); }</style>"
)
"""The style that turns a drawing's white ground dark, and leaves its hues as they are, where the
page of a notebook is dark."""


class Picture(Protocol):
    """A picture, computed on the host: no work may run on the device while a handle moves."""

    @property
    def figure(self) -> Figure:
        """A new figure, made without pyplot. Its label is the text for screen readers."""
        ...

    @property
    def text(self) -> str:
        """The content in words, the same on every machine."""
        ...


class Drawing(ipywidgets.VBox):
    """Sliders over the picture that `draw` makes, called by name with each slider's value. A slider
    is (label, the values to choose from, the first value).

    A page without a kernel draws the picture with the script that the picture's `script` names. If
    it has none, the page has the pictures for each slider moved alone, from the first values.
    """

    def __init__(
        self, draw: Callable[..., Picture], **sliders: tuple[str, Sequence[int], int]
    ) -> None:
        self._draw = draw
        self.sliders = {name: Slider(*slider) for name, slider in sliders.items()}
        self._first = {name: slider.value for name, slider in self.sliders.items()}
        self._shown = ipywidgets.HTML()
        self._redraw()
        for slider in self.sliders.values():
            slider.observe(self._redraw, names="value")
        super().__init__([*self.sliders.values(), self._shown])

    @property
    def picture(self) -> Picture:
        return self._draw(**{name: slider.value for name, slider in self.sliders.items()})

    def _redraw(self, change: dict | None = None) -> None:
        self._shown.value = img_of(self.picture.figure)

    def __repr__(self) -> str:
        return self.picture.text

    def _repr_mimebundle_(self, **kwargs: dict) -> Bundle:
        live = super()._repr_mimebundle_(**kwargs)
        data, metadata = with_embedding(live, "drawing", self._embedded)
        picture = self.picture
        data |= {"text/plain": picture.text, "image/png": png_of(picture.figure)}
        return data, {**metadata, "image/png": {"alt": picture.text}}

    def _embedded(self) -> Embedded:
        """Returns the sliders with the values that were drawn, and the picture of each: `""` is the
        first picture, `name value` the picture with that slider moved. With a script there are all
        values and only the first picture."""
        first_picture = self._draw(**self._first)
        pictures = {"": still(first_picture)}
        if script := getattr(first_picture, "script", ""):
            return {"sliders": self._all_values(), "pictures": pictures, "script": script}, []
        sliders = []
        for name, slider in self.sliders.items():
            first = self._first[name]
            values = thinned(slider.options, first)
            sliders.append({"name": name, "label": slider.label, "options": values, "value": first})
            for value in values:
                if value != first:
                    moved = self._draw(**{**self._first, name: value})
                    pictures[f"{name} {value}"] = still(moved)
        return {"sliders": sliders, "pictures": pictures}, []

    def _all_values(self) -> list[dict[str, object]]:
        return [
            {"name": name, "label": slider.label, "options": list(slider.options)}
            | {"value": self._first[name]}
            for name, slider in self.sliders.items()
        ]


def thinned(values: Sequence[int], first: int) -> list[int]:
    """Returns at most MOST_PICTURES evenly spaced values with both ends, and `first`."""
    step = -(-(len(values) - 1) // (MOST_PICTURES - 1)) or 1
    kept = {*values[::step], values[-1], first}
    return [value for value in values if value in kept]


def still(picture: Picture) -> dict[str, object]:
    """Returns a picture for a page without a kernel: "svg" with its letters as text, "alt" with its
    words, "width" in CSS pixels."""
    figure = picture.figure
    buffer = StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "debubble"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    width = round(figure.get_figwidth() * CSS_PIXELS_PER_INCH)
    return {"svg": buffer.getvalue(), "alt": str(figure.get_label()), "width": width}


def png_of(figure: Figure) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def img_of(figure: Figure) -> str:
    """Returns the figure as an HTML image with alternative text, which ipywidgets.Image lacks. The
    image is decoded synchronously, so that nothing flickers between two pictures."""
    width = round(figure.get_figwidth() * CSS_PIXELS_PER_INCH)
    source = f"data:image/png;base64,{b64encode(png_of(figure)).decode()}"
    return (
        f'{IN_THE_DARK}<img class="debubble-drawing" src="{source}" '
        f'alt="{escape(str(figure.get_label()))}" width="{width}" '
        f'style="max-width: 100%" decoding="sync">'
    )
