"""A slider over recordings: one timeline for each value, redrawn while the handle moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import ipywidgets

from debubble.timeline.data import TimelineData

from .progress import progress
from .timeline.widget import TimelineWidget

Recording = TimelineData | tuple[TimelineData, TimelineData]
"""A timeline, or (before, after)."""


class Explorer(ipywidgets.VBox):
    """Everything is recorded before the slider appears: moving it runs nothing on the device."""

    def __init__(self, label: str, recordings: dict[int, Recording]) -> None:
        values = sorted(recordings)
        step = values[1] - values[0] if len(values) > 1 else 1
        if values != list(range(values[0], values[-1] + 1, step)):
            raise ValueError(f"values {values}: a slider needs evenly spaced whole numbers")
        self._recordings = {value: _as_pair(recordings[value]) for value in values}
        before, after = self._recordings[values[0]]
        self.timeline = TimelineWidget(after, before)
        self.slider = ipywidgets.IntSlider(
            values[0],
            min=values[0],
            max=values[-1],
            step=step,
            description=label,
            style={"description_width": "initial"},
            layout=ipywidgets.Layout(width="28em"),
        )
        self.slider.observe(self._show, names="value")
        super().__init__([self.slider, self.timeline])

    def _show(self, change: dict) -> None:
        before, after = self._recordings[change["new"]]
        self.timeline.update(after, before)

    def __repr__(self) -> str:
        lines = [
            f"{self.slider.description} {value}: {_counted(after)}"
            for value, (_, after) in self._recordings.items()
        ]
        return "\n".join(lines)

    def _repr_mimebundle_(self, **kwargs: dict) -> tuple[dict, dict]:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        still, described = self.timeline._repr_mimebundle_()
        picture = {"text/plain": repr(self), "image/png": still["image/png"]}
        return {**data, **picture}, {**metadata, **described}


def explore(label: str, values: Iterable[int], record: Callable[[int], Recording]) -> Explorer:
    """Records every value, with progress, and shows them behind a slider."""
    return Explorer(label, {value: record(value) for value in progress(list(values), label)})


def _as_pair(recording: Recording) -> tuple[TimelineData | None, TimelineData]:
    return recording if isinstance(recording, tuple) else (None, recording)


def _counted(timeline: TimelineData) -> str:
    counts = {name: count for name, count in timeline.counts().items() if count}
    return ", ".join(f"{name}={count}" for name, count in counts.items())
