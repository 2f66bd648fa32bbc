"""A recording as its reader meets it: it shows itself, saves itself, compares itself."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import ClassVar, Protocol

from .comparison import Comparison
from .data import TimelineData
from .perfetto import save_perfetto
from .trace_file import load_timeline, save_timeline

MimeBundle = dict[str, object] | tuple[dict[str, object], dict[str, object]]
"""What Jupyter asks a value for: data by MIME type, or that with metadata by MIME type."""


class LiveTimeline(Protocol):
    """A timeline on a notebook's page."""

    def update(self, timeline: TimelineData, before: TimelineData | None = None) -> None:
        """Show `timeline` instead, `before` ghosted behind it."""


class Display(Protocol):
    """What draws timelines. The views do; they lie above the recordings, which can't ask for
    them, and so `import debubble` brings the two together."""

    def show(
        self, timeline: TimelineData, before: TimelineData | None = None
    ) -> LiveTimeline | None:
        """The live timeline in a notebook; None where it was printed instead."""

    def mime_bundle(self, timeline: TimelineData) -> MimeBundle: ...


@dataclass(repr=False)
class Timeline(TimelineData):
    """Events and hazards of one recording, all times in microseconds, with what its reader does
    with it; the fields and figures are those of TimelineData."""

    display: ClassVar[Display]

    def compare(self, after: Timeline) -> Comparison:
        """This timeline as *before*, `after` as what became of it."""
        return Comparison(self, after)

    def show(self, before: Timeline | None = None) -> LiveTimeline | None:
        """In a notebook the live timeline, `before` ghosted behind; elsewhere print lanes."""
        return self.display.show(self, before)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the recording as JSON; it can be read on a machine without the source files."""
        save_timeline(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Timeline:
        """Read what `save` wrote; raises TraceFileError when it is cut off, or not ours."""
        return cls(**vars(load_timeline(path)))

    def to_perfetto(self, path: str | PathLike[str]) -> None:
        """Write a Chrome trace, for https://ui.perfetto.dev or chrome://tracing."""
        save_perfetto(self, path)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> MimeBundle:
        return self.display.mime_bundle(self)
