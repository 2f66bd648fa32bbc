"""The data of a dashboard for a page without a kernel: some of its runs, made when the notebook is
stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, product

from ..embedding import Embedded, State
from ..timeline.widget import TimelineWidget
from .run import Run
from .settings import Choices, Settings
from .table import plain_groups

MOST_OF_ALL = 24
"""The most combinations of settings for which a dashboard stores every run."""
MOST_TOGGLES = 6
"""The most toggles of which a dashboard stores every combination, with the sliders as at the
start."""


def embedded(choices: Choices, start: Settings, take: Callable[[Settings], Run]) -> Embedded:
    """Returns the data of a dashboard for a page without a kernel: its controls, its runs, and
    their timelines. `take` returns the run of settings, and may have to make it; a run that fails
    is left out."""
    runs: dict[str, dict[str, object]] = {}
    states: list[State] = []
    for settings in settings_to_keep(choices, start):
        try:
            run = take(settings)
        except RuntimeError:
            continue
        runs[key_of(settings)] = {
            "state": len(states),
            "on": settings.on,
            "values": [value for _, value in settings.values],
            "words": str(settings),
            "source": run.source,
            "groups": plain_groups(run),
        }
        states.append(TimelineWidget(run.timeline).state)
    sliders = [
        {
            "label": name,
            "options": list(values),
            "value": dict(start.values)[name],
            "unit": getattr(values, "unit", ""),
        }
        for name, values in choices.sliders.items()
    ]
    about = {
        "toggles": choices.toggles, "sliders": sliders, "start": key_of(start), "runs": runs,
        "presets": choices.presets,
    }  # fmt: skip
    return about, states


def key_of(settings: Settings) -> str:
    """Returns the key that JSON.stringify makes of [toggles that are on, values of the sliders]."""
    values = [value for _, value in settings.values]
    return json.dumps([settings.on, values], separators=(",", ":"), ensure_ascii=False)


def settings_to_keep(choices: Choices, start: Settings) -> Iterator[Settings]:
    """Yields the settings whose runs are stored: all of them if they are few. Otherwise each
    combination of the toggles (of many toggles the presets), with the sliders as at the start; and
    with none or all of the toggles each slider moved alone."""
    names, first = tuple(choices.toggles), dict(start.values)
    sizes = 2 ** len(names)
    for values in choices.sliders.values():
        sizes *= len(values)
    if sizes <= MOST_OF_ALL:
        every = product(*([False, True] for _ in names), *choices.sliders.values())
        for chosen in every:
            on = [name for name, is_on in zip(names, chosen, strict=False) if is_on]
            yield choices.settings(on, dict(zip(first, chosen[len(names) :], strict=True)))
        return
    some: Iterable[tuple[str, ...]] = choices.presets.values()
    if len(names) <= MOST_TOGGLES:
        some = (on for count in range(len(names) + 1) for on in combinations(names, count))
    kept = [choices.settings(on, first) for on in (start.on, *some)]
    for slider, values in choices.sliders.items():
        kept += [
            choices.settings(on, {**first, slider: value}) for value in values for on in ((), names)
        ]
    yield from dict.fromkeys(kept)
