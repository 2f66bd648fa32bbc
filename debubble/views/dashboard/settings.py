"""The choices of a dashboard, its current settings, and the words for both."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass


class Amounts(tuple[int, ...]):
    """The values of a slider, with their unit, such as "tokens"."""

    unit: str

    def __new__(cls, values: Iterable[int], unit: str) -> Amounts:
        amounts = super().__new__(cls, values)
        amounts.unit = unit
        return amounts


@dataclass(frozen=True)
class Settings:
    """The current settings. `on`: the toggles that are on; `values`: (slider, value). Both in the
    dashboard's order."""

    on: tuple[str, ...]
    values: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        """Returns text such as `batch 8, layers 4, on: pinned, graph`."""
        toggles = f"on: {', '.join(self.on)}" if self.on else "nothing on"
        return ", ".join([*(f"{name} {value}" for name, value in self.values), toggles])


class Choices:
    """The choices of a dashboard. toggles: name and label; sliders: label and the values to choose
    from."""

    def __init__(self, toggles: Mapping[str, str], sliders: Mapping[str, Sequence[int]]) -> None:
        self.toggles, self.sliders = dict(toggles), dict(sliders)

    def settings(self, on: Collection[str], values: Mapping[str, int]) -> Settings:
        """Returns the Settings with these toggles on and these sliders' values; a slider that
        `values` leaves out has its first value. Raises ValueError for an unknown name or value."""
        on = {on} if isinstance(on, str) else set(on)
        for name in sorted(on - set(self.toggles)):
            raise ValueError(_unknown("toggle", name, self.toggles))
        for name, value in values.items():
            if name not in self.sliders:
                raise ValueError(_unknown("slider", name, self.sliders))
            if value not in self.sliders[name]:
                allowed = ", ".join(map(str, self.sliders[name]))
                raise ValueError(f"{name} {value} can't be chosen: choose one of {allowed}")
        chosen = {name: values.get(name, options[0]) for name, options in self.sliders.items()}
        return Settings(tuple(name for name in self.toggles if name in on), tuple(chosen.items()))

    @property
    def presets(self) -> dict[str, tuple[str, ...]]:
        """The toggles that are on at a click, by the words of its button: none, each alone, all but
        each, and all."""
        names = tuple(self.toggles)
        words = {name: _short(name, label) for name, label in self.toggles.items()}
        alone = {f"only {words[name]}": (name,) for name in names}
        without = {
            f"all but {words[name]}": tuple(other for other in names if other != name)
            for name in names
        }
        return {"none": (), **alone, **without, "all": names}

    def changes(self, before: Settings, now: Settings) -> str:
        """Returns the changes with the labels of the controls: `batch 4 → 8; switched on “one graph
        a step”`."""
        parts = [
            f"{name} {old} → {new}"
            for (name, old), (_, new) in zip(before.values, now.values, strict=True)
            if old != new
        ]
        for word, some, others in (("on", now, before), ("off", before, now)):
            labels = [f"“{self.toggles[name]}”" for name in some.on if name not in others.on]
            if labels:
                parts.append(f"switched {word} {', '.join(labels)}")
        return "; ".join(parts) or "nothing"


def _short(name: str, label: str) -> str:
    """Returns the number of the chapter with which a label begins, or else the toggle's name."""
    first = label.partition(" ")[0]
    return first if first.isdigit() else name


def _unknown(kind: str, name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    return f"{kind} {name!r} is unknown: choose from {', '.join(known) or 'none'}{hint}"
