"""Sliders over a drawing that is computed anew while a handle moves."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Protocol

import ipywidgets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {"description_width": "14em"}
CSS_PIXELS_PER_INCH = 96


class Picture(Protocol):
    """Computed on the host: nothing may run on the device while a handle moves."""

    @property
    def figure(self) -> Figure:
        """A new one, made without pyplot. Its label is what a screen reader says of it."""
        ...

    @property
    def text(self) -> str:
        """The same in words, the same on every machine."""
        ...


class Drawing(ipywidgets.VBox):
    """`draw` is called by name with each slider's value; a page without a kernel has the first
    picture. A slider is (label, the values to choose from, the first value)."""

    def __init__(
        self, draw: Callable[..., Picture], **sliders: tuple[str, Sequence[int], int]
    ) -> None:
        self._draw = draw
        self.sliders = {
            name: ipywidgets.SelectionSlider(
                options=list(values),
                value=first,
                description=label,
                style=LABELS,
                layout=ipywidgets.Layout(width="36em"),
            )
            for name, (label, values, first) in sliders.items()
        }
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

    def _repr_mimebundle_(self, **kwargs: dict) -> tuple[dict, dict]:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        picture = self.picture
        data = {**data, "text/plain": picture.text, "image/png": png_of(picture.figure)}
        return data, {**metadata, "image/png": {"alt": picture.text}}


def png_of(figure: Figure) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def img_of(figure: Figure) -> str:
    """HTML, since ipywidgets.Image has no words for those who don't see it. It is decoded at once,
    so that nothing flickers between two pictures."""
    width = round(figure.get_figwidth() * CSS_PIXELS_PER_INCH)
    source = f"data:image/png;base64,{b64encode(png_of(figure)).decode()}"
    return (
        f'<img src="{source}" alt="{escape(str(figure.get_label()))}" width="{width}" '
        f'style="max-width: 100%" decoding="sync">'
    )
