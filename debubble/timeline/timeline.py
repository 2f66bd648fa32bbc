"""The recording that users get: it can show, save and compare itself."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import ClassVar, Protocol

from .comparison import Comparison
from .data import TimelineData
from .perfetto import save_perfetto
from .trace_file import load_timeline, save_timeline

MimeBundle = dict[str, object] | tuple[dict[str, object], dict[str, object]]
"""The value that Jupyter expects from `_repr_mimebundle_`: data by MIME type, or data and metadata
by MIME type."""


class LiveTimeline(Protocol):
    """A timeline on a notebook's page."""

    def update(self, timeline: TimelineData, before: TimelineData | None = None) -> None:
        """Shows `timeline` in place of the current one, with `before` ghosted behind it."""


class Display(Protocol):
    """The interface of the views that draw timelines. The views lie above the recordings, which
    can't import them, so `import debubble` connects the two."""

    def show(
        self, timeline: TimelineData, before: TimelineData | None = None
    ) -> LiveTimeline | None:
        """Shows a timeline. Returns the live timeline in a notebook, or None after printing it
        elsewhere."""

    def mime_bundle(self, timeline: TimelineData) -> MimeBundle: ...


class OtherFiles(Protocol):
    """A reader of files that other programs wrote. It lies above the recordings too."""

    def load(self, path: str | PathLike[str]) -> TimelineData | None:
        """Returns the timeline in a file, or None for a file that `save` may have written."""


@dataclass(repr=False)
class Timeline(TimelineData):
    """Events and hazards of one recording, all times in microseconds, with methods to show, save
    and compare them. Its fields and figures are those of TimelineData."""

    display: ClassVar[Display]
    other_files: ClassVar[OtherFiles]

    def compare(self, after: Timeline) -> Comparison:
        """Returns the comparison of this timeline (*before*) with `after`."""
        return Comparison(self, after)

    def show(self, before: Timeline | None = None) -> LiveTimeline | None:
        """Shows the live timeline in a notebook, with `before` ghosted behind; elsewhere prints
        lanes."""
        return self.display.show(self, before)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the recording as JSON; it can be read on a machine without the source files."""
        save_timeline(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Timeline:
        """Reads a file written by `save`, or a trace that torch.profiler wrote, also packed by
        gzip. Raises TraceFileError when it is cut off, or neither."""
        return cls(**vars(cls.other_files.load(path) or load_timeline(path)))

    def to_perfetto(self, path: str | PathLike[str]) -> None:
        """Writes a Chrome trace, for https://ui.perfetto.dev or chrome://tracing."""
        save_perfetto(self, path)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> MimeBundle:
        return self.display.mime_bundle(self)
