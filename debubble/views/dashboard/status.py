"""The line that says in words what a dashboard is doing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import anywidget
import traitlets

from ..javascript import one_module

State = Literal["shown", "running", "failed"]


SOURCE = one_module(Path(__file__).parent / "status.js")


class Status(anywidget.AnyWidget):
    """A live region: a screen reader reads it out when it changes."""

    _esm = SOURCE

    # One trait, so that a state never goes without its words.
    line = traitlets.Dict().tag(sync=True)

    def say(self, state: State, *sentences: str) -> None:
        """A line for each sentence."""
        self.line = {"state": state, "text": "\n".join(sentences)}
