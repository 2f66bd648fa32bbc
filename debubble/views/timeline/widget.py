"""The interactive timeline: sends bytes to the browser, where the modules in `browser` draw
them."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

from debubble.timeline.comparison import Comparison
from debubble.timeline.data import TimelineData

from ..embedding import BYTES, Bundle, State, with_embedding
from ..javascript import one_module
from .caption import alt_text
from .packing import BUBBLE_COLUMNS, EVENT_COLUMNS, pack
from .palette import palette
from .picture import draw_png

SOURCE = one_module(Path(__file__).parent / "browser" / "timeline.js")


class TimelineWidget(anywidget.AnyWidget):
    """A view of `timeline`, with `before` ghosted behind it; `update` redraws it in place.

    Neither the constructor nor `update` uses an accelerator or pyplot, so both may be called from a
    slider's callback.
    """

    _esm = SOURCE

    events = traitlets.Bytes().tag(sync=True)
    bubbles = traitlets.Bytes().tag(sync=True)
    ghost_events = traitlets.Bytes().tag(sync=True)
    ghost_bubbles = traitlets.Bytes().tag(sync=True)
    # Names, counts and layout of the bytes; contains a revision, so that each update changes it.
    facts = traitlets.Dict().tag(sync=True)

    def __init__(
        self, timeline: TimelineData, before: TimelineData | None = None, *, axis: float = 0.0
    ) -> None:
        """Makes the time axis at least `axis` microseconds long, so that several widgets can be
        compared."""
        self._revision = 0
        self._axis = axis
        self._timeline, self._before = timeline, before
        super().__init__(**self._pack())

    @property
    def timeline(self) -> TimelineData:
        return self._timeline

    @property
    def before(self) -> TimelineData | None:
        return self._before

    def update(self, timeline: TimelineData, before: TimelineData | None = None) -> None:
        """Shows `timeline` in place of the current one, in one message; without `before` the ghost
        disappears."""
        self._timeline, self._before = timeline, before
        with self.hold_sync():
            for name, value in self._pack().items():
                setattr(self, name, value)

    def _pack(self) -> dict[str, object]:
        after = pack(self._timeline)
        ghost = pack(self._before) if self._before is not None else None
        self._revision += 1
        return {
            "events": after.events,
            "bubbles": after.bubbles,
            "ghost_events": ghost.events if ghost else b"",
            "ghost_bubbles": ghost.bubbles if ghost else b"",
            "facts": {
                "revision": self._revision,
                "layout": {"events": EVENT_COLUMNS, "bubbles": BUBBLE_COLUMNS},
                "palette": palette(),
                "after": after.facts,
                "before": ghost.facts if ghost else None,
                "axis": self._axis,
            },
        }

    def __repr__(self) -> str:
        """Returns counts only: the same on sim and on CUDA."""
        if self._before is None:
            return repr(self._timeline)
        return repr(Comparison(self._before, self._timeline))

    @property
    def state(self) -> State:
        """The data that the browser's part draws from."""
        return {name: getattr(self, name) for name in ("facts", *BYTES)}

    def _repr_mimebundle_(self, **kwargs: dict) -> Bundle:
        """Returns the live view, and for pages without a kernel its data, a picture and a line."""
        live = super()._repr_mimebundle_(**kwargs)
        data, metadata = with_embedding(live, "timeline", lambda: ({}, [self.state]))
        data |= {"text/plain": repr(self), "image/png": draw_png(self._timeline, self._before)}
        return data, {**metadata, "image/png": {"alt": alt_text(self._timeline, self._before)}}
