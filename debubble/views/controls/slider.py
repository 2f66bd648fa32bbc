"""A slider that a screen reader can name and that is as wide as its page allows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anywidget
import traitlets

from ..javascript import one_module

SOURCE = one_module(Path(__file__).parent / "slider.js")


class Slider(anywidget.AnyWidget):
    """A slider whose `value` is one of `options`, whole numbers in the order of the handle's path.

    ipywidgets' own sliders give their handle no name, and a long label leaves them no track.
    """

    _esm = SOURCE

    label = traitlets.Unicode().tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    options = traitlets.List(traitlets.Int()).tag(sync=True)
    value = traitlets.Int().tag(sync=True)

    def __init__(self, label: str, options: Sequence[int], value: int, unit: str = "") -> None:
        """Shows the `unit` of the values after each of them, such as "ms". `value` is the first one
        shown."""
        super().__init__(label=label, options=list(options), value=value, unit=unit)

    @traitlets.validate("value")
    def _check(self, proposal: dict) -> int:
        value = proposal["value"]
        if value not in self.options:
            allowed = ", ".join(map(str, self.options))
            raise traitlets.TraitError(f"{self.label} {value} can't be chosen: one of {allowed}")
        return value
