"""The line that says in words what a dashboard is doing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import anywidget
import traitlets

from ..javascript import one_module

State = Literal["shown", "running", "failed"]


SOURCE = one_module(Path(__file__).parent / "status.js")


class Status(anywidget.AnyWidget):
    """The status line of a dashboard, as a live region: a screen reader reads it out when it
    changes."""

    _esm = SOURCE

    # State and words are one trait, so that they always change together.
    line = traitlets.Dict().tag(sync=True)

    # The figure of the shown run that leads: [what it is, before or "", now, change or ""].
    leading = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def say(self, state: State, *sentences: str) -> None:
        """Shows the state, with a line for each sentence."""
        self.line = {"state": state, "text": "\n".join(sentences)}

    def lead(self, figure: Sequence[str]) -> None:
        """Shows the leading figure: its name, its value before, its value now, and its change."""
        self.leading = list(figure)
