"""A slider over recordings: one timeline for each value, redrawn while the handle moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import ipywidgets

from debubble.timeline.data import TimelineData

from .controls.slider import Slider
from .embedding import Bundle, Embedded, with_embedding
from .progress import progress
from .timeline.widget import TimelineWidget

SLIDER = ("label", "options", "value", "unit")

Recording = TimelineData | tuple[TimelineData, TimelineData]
"""The recording for one value of the slider: a timeline, or (before, after)."""


class Explorer(ipywidgets.VBox):
    """A slider over recordings that were all made before it appears: moving it runs nothing on the
    device.

    All values share one time axis, as long as the longest of them, so that lengths compare.
    """

    def __init__(
        self, label: str, recordings: dict[int, Recording], start: int | None = None
    ) -> None:
        """Shows the recording for `start` first; by default that for the middle value, from which
        the slider can move both ways. Raises ValueError if there is no recording for `start`."""
        values = sorted(recordings)
        start = values[len(values) // 2] if start is None else start
        if start not in recordings:
            known = ", ".join(map(str, values))
            raise ValueError(f"start={start}: nothing was recorded for it, only for {known}")
        self._recordings = {value: _as_pair(recordings[value]) for value in values}
        self._axis = max(
            timeline.length for pair in self._recordings.values() for timeline in pair if timeline
        )
        before, after = self._recordings[start]
        self.timeline = TimelineWidget(after, before, axis=self._axis)
        self.slider = Slider(label, values, start)
        self.slider.observe(self._show, names="value")
        super().__init__([self.slider, self.timeline])

    def _show(self, change: dict) -> None:
        before, after = self._recordings[change["new"]]
        self.timeline.update(after, before)

    def __repr__(self) -> str:
        lines = [
            f"{self.slider.label} {value}: {_counted(after)}"
            for value, (_, after) in self._recordings.items()
        ]
        return "\n".join(lines)

    def _repr_mimebundle_(self, **kwargs: dict) -> Bundle:
        live = super()._repr_mimebundle_(**kwargs)
        data, metadata = with_embedding(live, "explorer", self._embedded)
        still, described = self.timeline._repr_mimebundle_()
        data |= {"text/plain": repr(self), "image/png": still["image/png"]}
        return data, {**metadata, **described}

    def _embedded(self) -> Embedded:
        slider = {name: getattr(self.slider, name) for name in SLIDER}
        states = [
            TimelineWidget(after, before, axis=self._axis).state
            for before, after in self._recordings.values()
        ]
        return {"slider": slider}, states


def explore(
    label: str,
    values: Iterable[int],
    record: Callable[[int], Recording],
    *,
    start: int | None = None,
) -> Explorer:
    """Calls `record` for every value, with a progress bar, and returns a slider over the
    recordings, which shows that for `start` first."""
    return Explorer(label, {value: record(value) for value in progress(list(values), label)}, start)


def _as_pair(recording: Recording) -> tuple[TimelineData | None, TimelineData]:
    return recording if isinstance(recording, tuple) else (None, recording)


def _counted(timeline: TimelineData) -> str:
    counts = {name: count for name, count in timeline.counts().items() if count}
    return ", ".join(f"{name}={count}" for name, count in counts.items())
