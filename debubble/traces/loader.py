"""Opens any file with a timeline: a trace of torch.profiler, or one of ours that gzip packed.

It imports nothing that takes long until there is such a file.
"""

from __future__ import annotations

from ..timeline.data import TimelineData
from ..timeline.trace_file import MOST_BYTES
from ..timeline.trace_format import FORMAT, TraceFileError
from ..timeline.trace_reading import decode_timeline
from .text import Path, is_packed, opening, texts

SIGNS = ('"traceEvents"', '"schemaVersion"', '"deviceProperties"', '"ph"')
"""Texts among the first characters of a trace of torch.profiler, and not of our own files."""


def is_torch_trace(path: Path) -> bool:
    """Returns True if a file may be a trace of torch.profiler, and reading it says more. Raises
    TraceFileError for a file that can't be read."""
    first = opening(path)
    if FORMAT in first:
        return False
    return is_packed(path) or any(sign in first for sign in SIGNS)


class OtherFiles:
    """The files that `Timeline.load` opens beside those that `save` wrote."""

    def load(self, path: Path) -> TimelineData | None:
        """Returns the timeline of a file, or None for one that is not packed and no trace. Raises
        TraceFileError for a trace that can't be read."""
        if is_torch_trace(path):
            from .reading import read_trace

            return read_trace(path).timeline
        return self._packed(path) if is_packed(path) else None

    def _packed(self, path: Path) -> TimelineData:
        parts, length = [], 0
        for part in texts(path):
            parts.append(part)
            length += len(part)
            if length > MOST_BYTES:
                raise TraceFileError(f"{path} is too large for a timeline.")
        return decode_timeline("".join(parts), path)
