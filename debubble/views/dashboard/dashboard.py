"""Toggles and sliders over a live run: its timeline and figures, beside those of the previous
run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import ipywidgets

from debubble.assets import slug
from debubble.timeline.perfetto import save_perfetto

from ..controls.slider import Slider
from ..embedding import Bundle, with_embedding
from ..timeline.widget import TimelineWidget
from .embedded import embedded
from .queue import LastWanted
from .run import Run, RunCall
from .settings import Choices, Settings
from .status import State, Status
from .table import FigureTable, leading
from .worker import check_that_it_can_be_sent, shared_worker

OLD = "debubble-old"
"""The CSS class of views that show an earlier run than the controls say."""
PATIENCE = 300.0
"""Seconds to wait for a run: a process's first run also imports PyTorch, and on a GPU compiles
kernels."""


class ShownRun(NamedTuple):
    settings: Settings
    run: Run


class Dashboard(ipywidgets.VBox):
    """A panel of toggles and sliders over a live run. It calls `run(toggles that are on, slider
    values)` in a process of its own, or by `jobs`, and shows the timeline and figures.

    A callback only passes the settings on. The settings that were requested last run once the run
    in flight has ended, and finished runs are kept. toggles: name and label; sliders: label and
    values.
    """

    def __init__(
        self,
        toggles: Mapping[str, str],
        sliders: Mapping[str, Sequence[int]],
        run: RunCall,
        *,
        start: tuple[Collection[str], Mapping[str, int]] = ((), {}),
        jobs: Executor | None = None,
    ) -> None:
        """Makes the first run, with the settings `start`, and waits for it. A slider left out there
        starts at its first value."""
        if jobs is None:
            check_that_it_can_be_sent(run)
        self._choices = Choices(toggles, sliders)
        settings = self._start = self._choices.settings(*start)
        self._runs = LastWanted(run, jobs or shared_worker(), settings)
        self._after = ShownRun(settings, self._runs.wait(PATIENCE))
        self._before: ShownRun | None = None
        self.toggles = {name: _checkbox(label) for name, label in toggles.items()}
        self.sliders = {
            name: Slider(name, values, values[0], getattr(values, "unit", ""))
            for name, values in sliders.items()
        }
        self.presets = {
            words: _preset(words, on, toggles, self._choose)
            for words, on in self._choices.presets.items()
        }
        self.status = Status()
        self.timeline = TimelineWidget(self._after.run.timeline)
        self.figures = FigureTable()
        self.exporter = ipywidgets.Button(
            description="Export for Perfetto",
            tooltip="Write the shown timeline to a file for ui.perfetto.dev",
            layout=ipywidgets.Layout(width="max-content"),
        )
        self.canceller = ipywidgets.Button(
            description="Cancel",
            tooltip="Stop the current run and set the controls back to the run that is shown",
            disabled=True,
            layout=ipywidgets.Layout(width="max-content"),
        )
        self._turn_to(settings)
        for control in (*self.toggles.values(), *self.sliders.values()):
            control.observe(self._follow, names="value")
        self.exporter.on_click(self._export)
        self.canceller.on_click(lambda button: self.cancel())
        super().__init__(self._arranged())
        self.figures.update(self._after.run, None)
        self.status.lead(leading(self._after.run, None))
        self.status.say(*self._status())
        self._runs.changed = self._redraw

    def show(
        self, on: Collection[str] | None = None, *, seconds: float = PATIENCE, **values: int
    ) -> Run:
        """Sets the controls, waits until the run with these settings is shown, and returns that
        run; a control that is left out keeps its value.

        Raises RuntimeError if the run fails, TimeoutError if it takes longer than `seconds`,
        ValueError for an unknown choice.
        """
        now = self._controls()
        on = now.on if on is None else on
        settings = self._choices.settings(on, {**dict(now.values), **values})
        self._turn_to(settings)
        self._runs.want(settings)
        return self._runs.wait(seconds)

    def cancel(self) -> None:
        """Turns the controls back to the shown run at once, and ends the run in flight early."""
        with self._runs.lock:
            self._turn_to(self._after.settings)
            self._runs.want(self._after.settings)

    def export(self, path: str | PathLike[str] | None = None) -> Path:
        """Writes the shown timeline for Perfetto, by default into the current folder under a name
        made of its settings, and returns the path."""
        path = Path(path or f"perfetto-{slug(str(self._after.settings))}.json").absolute()
        save_perfetto(self._after.run.timeline, path)
        return path

    def _controls(self) -> Settings:
        on = [name for name, toggle in self.toggles.items() if toggle.value]
        return self._choices.settings(
            on, {name: slider.value for name, slider in self.sliders.items()}
        )

    def _turn_to(self, settings: Settings) -> None:
        """Sets all controls to `settings` without starting a run for each of them."""
        self._follows = False
        for name, toggle in self.toggles.items():
            toggle.value = name in settings.on
        for name, value in settings.values:
            self.sliders[name].value = value
        self._follows = True

    def _choose(self, on: Collection[str]) -> None:
        """Switches exactly the toggles `on` on, and runs that."""
        self._turn_to(self._choices.settings(on, dict(self._controls().values)))
        self._runs.want(self._controls())

    def _follow(self, change: dict) -> None:
        if self._follows:
            self._runs.want(self._controls())

    def _redraw(self) -> None:
        runs = self._runs
        if runs.wanted in runs.kept and runs.wanted != self._after.settings:
            self._before, self._after = self._after, ShownRun(runs.wanted, runs.kept[runs.wanted])
            self.timeline.update(self._after.run.timeline, self._before.run.timeline)
            self.figures.update(self._after.run, self._before.run)
            self.status.lead(leading(self._after.run, self._before.run))
        if runs.failure is not None:
            self._turn_to(self._after.settings)
        self._mark_as_old(not runs.settled)
        self.status.say(*self._status())

    def _mark_as_old(self, old: bool) -> None:
        """Makes timeline and figures paler, and lets the reader cancel, as long as the controls
        differ from the settings that are shown."""
        self.canceller.disabled = not old
        for view in (self.timeline, self.figures):
            (view.add_class if old else view.remove_class)(OLD)

    def _export(self, button: ipywidgets.Button) -> None:
        with self._runs.lock:
            try:
                note = f"Written for ui.perfetto.dev: {self.export()}"
            except OSError as error:
                note = f"The timeline could not be written: {error}"
            self.status.say(*self._status(), note)

    def _status(self) -> tuple[State, str]:
        """Returns the state, and the text of the status line: the shown settings first, then the
        run in flight or the last change."""
        runs, after, before = self._runs, self._after.settings, self._before
        shown = f"Shown: {after}"
        if runs.failure is not None:
            return "failed", f"{shown}\n{runs.failure.told_of(runs.wanted)}"
        if not runs.settled:
            changes = self._choices.changes(after, runs.wanted)
            if runs.running == runs.wanted:
                return "running", f"{shown}\nRunning … {changes}"
            return "running", f"{shown}\nNext … {changes} (another run is ending)"
        if before is None:
            return "shown", shown
        return (
            "shown",
            f"{shown}\nChanged: {self._choices.changes(before.settings, after)}",
        )

    def _arranged(self) -> list[ipywidgets.Widget]:
        """Returns the widgets of the panel from top to bottom: controls, status, and the timeline,
        with the figures beside it if there is room."""
        row = ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start", grid_gap="0 18px")
        controls = [ipywidgets.VBox([*c.values()]) for c in (self.toggles, self.sliders) if c]
        presets = ipywidgets.HBox([*self.presets.values()], layout=row) if self.toggles else None
        parts = [
            ipywidgets.VBox([self.timeline, self.exporter], layout=_basis("1 1 34em")),
            ipywidgets.Box([self.figures], layout=_basis("0 1 25em")),
        ]
        return [
            ipywidgets.Box(controls, layout=row),
            *([presets] if presets else []),
            ipywidgets.HBox([self.status, self.canceller], layout=row),
            ipywidgets.Box(parts, layout=row),
        ]

    def __repr__(self) -> str:
        """Returns settings and counts: the same on sim and on CUDA."""
        if self._before is None:
            return f"{self._after.settings}\n{self.timeline!r}"
        lines = [f"before: {self._before.settings}", f"after: {self._after.settings}"]
        return "\n".join([*lines, repr(self.timeline)])

    def _repr_mimebundle_(self, **kwargs: dict) -> Bundle:
        live = super()._repr_mimebundle_(**kwargs)
        data, metadata = with_embedding(
            live, "dashboard", lambda: embedded(self._choices, self._start, self._runs.take)
        )
        still, described = self.timeline._repr_mimebundle_()
        picture = {"text/plain": repr(self), "image/png": still["image/png"]}
        return {**data, **picture}, {**metadata, **described}


def _preset(
    words: str,
    on: Collection[str],
    labels: Mapping[str, str],
    choose: Callable[[Collection[str]], None],
) -> ipywidgets.Button:
    """Returns a button that switches exactly the toggles `on` on."""
    names = ", ".join(labels[name] for name in on) or "nothing"
    button = ipywidgets.Button(
        description=words,
        tooltip=f"Switch on: {names}",
        layout=ipywidgets.Layout(width="max-content"),
    )
    button.on_click(lambda _: choose(on))
    return button


def _basis(flex: str) -> ipywidgets.Layout:
    return ipywidgets.Layout(flex=flex, min_width="0")


def _checkbox(label: str) -> ipywidgets.Checkbox:
    return ipywidgets.Checkbox(
        description=label, indent=False, layout=ipywidgets.Layout(width="auto", margin="0 4px")
    )
