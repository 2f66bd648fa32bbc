"""The race as a cell of a notebook."""

from __future__ import annotations

import anywidget
import traitlets

from ..embedding import Bundle
from .facts import Pair, pairs, source

STILL = '<div class="race" data-race="{chapter}"><p>The race runs in JupyterLab.</p></div>'
"""The race for a page without a kernel: the site's script starts a race there."""


class Race(anywidget.AnyWidget):
    """Two small programs that race in the browser. A reader changes them, and nothing runs on the
    device."""

    _esm = source()

    pair = traitlets.Unicode().tag(sync=True)
    address = traitlets.Bool(False).tag(sync=True)

    def __init__(self, chapter: str) -> None:
        """Begins with the two programs of a chapter, such as "00". Raises ValueError for a chapter
        without programs."""
        known = [pair["chapter"] for pair in pairs()]
        if chapter not in known:
            raise ValueError(f"no race for chapter {chapter!r}, only for {', '.join(known)}")
        super().__init__(pair=chapter)

    @property
    def programs(self) -> Pair:
        return next(pair for pair in pairs() if pair["chapter"] == self.pair)

    def __repr__(self) -> str:
        return f"A race of two programs: {self.programs['name']}\n{self.programs['lesson']}"

    def _repr_mimebundle_(self, **kwargs: dict) -> Bundle:
        live = super()._repr_mimebundle_(**kwargs)
        data, metadata = live if isinstance(live, tuple) else (live or {}, {})
        still = STILL.format(chapter=self.pair)
        return {**data, "text/plain": repr(self), "text/html": still}, dict(metadata)
