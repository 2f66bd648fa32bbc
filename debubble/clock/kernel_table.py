"""Kernel times that were measured on a GPU, and those between them."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, TypedDict, cast

from debubble.assets import CALIBRATIONS, slug

from .configuration import configuration
from .shaped import Configuration, Shaped, is_tensor

FOLDER = CALIBRATIONS / "kernels"
HOPPER = re.compile(r"\b(G?H100|G?H200|H800)\b")
OF_HOPPER = "nvidia-h100-80gb-hbm3"
FAR = 2.0
"""The distance of the nearest measurement, in doublings, from which on a time is a guess."""
FEWEST = 4
"""The number of measurements from which on a kind is believed without more general ones."""
SHORTEST_US = 0.3


def table_for(gpu: str) -> str:
    """Returns the slug of the table for the GPU with this name: its own, or one of a GPU with the
    same processors, or "" if there is none."""
    if (FOLDER / f"{slug(gpu)}.json").exists():
        return slug(gpu)
    return OF_HOPPER if HOPPER.search(gpu) else ""


class Time(NamedTuple):
    """The device time of all kernels of one call."""

    microseconds: float
    is_guess: bool
    """True if no measurement is near."""


class Measured(NamedTuple):
    """One measured call: its sizes as weighted logarithms, and the logarithm of its time."""

    place: tuple[float, ...]
    log_us: float


class OfKind(TypedDict):
    """The measured calls of one exact kind."""

    general: list[str]
    """The more general kinds, the most general one last."""
    weights: list[float]
    measured: list[list[float]]
    """Rows of sizes, with the microseconds last."""


class KernelTable:
    """The measured calls of one GPU, `kinds`, by their exact kinds."""

    def __init__(self, gpu: str, memory_bandwidth: float, kinds: dict[str, OfKind]) -> None:
        self.gpu, self.memory_bandwidth = gpu, memory_bandwidth
        self._kinds = kinds
        self._under: dict[str, list[str]] = defaultdict(list)
        """The exact kinds of each kind."""
        for exact, of_kind in kinds.items():
            for kind in (exact, *of_kind["general"]):
                self._under[kind].append(exact)
        self._measured: dict[str, list[Measured]] = {}
        """The measurements of the kinds that were asked for so far."""
        self._known: dict[tuple, Time | None] = {}

    def time_of(
        self, name: str, args: Sequence[object], results: Sequence[Shaped], nbytes: float
    ) -> Time | None:
        """Returns the time of a call, as `configuration` takes it, or None if nothing like it was
        measured. The call moves `nbytes` bytes, which tell calls with equal arguments apart if
        their results depend on values."""
        try:
            key = (name, nbytes, _signature(args))
        except RuntimeError:  # A sparse tensor has no strides.
            return None
        try:
            return self._known[key]
        except KeyError:
            called = configuration(name, args, results)
            found = self._known[key] = None if called is None else self.between(called)
            return found

    def between(self, called: Configuration) -> Time | None:
        """Returns the time of a call from the nearest ones of the most exact kind of which enough
        were measured: their mean, the nearer the heavier."""
        place = _place(called.sizes, called.weights)
        measured = [self._of(kind) for kind in called.kinds if kind in self._under]
        enough = (
            those for those in measured if len(those) >= FEWEST or _nearest(those, place) < 0.1
        )
        those = next(enough, measured[0] if measured else None)
        if those is None:
            return None
        nearest = sorted((math.dist(one.place, place), one.log_us) for one in those)
        distance, log_us = nearest[0]
        if distance < 0.01:
            return Time(math.exp(log_us), False)
        weighted = [(distance**-4, log_us) for distance, log_us in nearest[: 2 * len(place)]]
        total = sum(weight for weight, _ in weighted)
        mean = sum(weight * log_us for weight, log_us in weighted) / total
        return Time(math.exp(mean), distance > FAR)

    def _of(self, kind: str) -> list[Measured]:
        if kind not in self._measured:
            self._measured[kind] = [
                Measured(_place(sizes, of_kind["weights"]), math.log(max(us, SHORTEST_US)))
                for of_kind in map(self._kinds.__getitem__, self._under[kind])
                for *sizes, us in of_kind["measured"]
            ]
        return self._measured[kind]

    @classmethod
    @cache
    def load(cls, gpu: str) -> KernelTable | None:
        """Returns the table of the GPU with this slug, or None if it has none."""
        path = FOLDER / f"{gpu}.json"
        if not path.exists():
            return None
        stored = json.loads(path.read_text())
        return cls(stored["gpu"], stored["memory_bandwidth"], stored["kinds"])


def _place(sizes: Sequence[float], weights: Sequence[float]) -> tuple[float, ...]:
    return tuple(
        weight * math.log2(max(1, size)) for size, weight in zip(sizes, weights, strict=True)
    )


def _nearest(those: list[Measured], place: tuple[float, ...]) -> float:
    return min(math.dist(one.place, place) for one in those)


def _signature(values: Sequence[object]) -> tuple:
    """Returns the parts of these arguments on which a time depends, as a key of a dictionary: no
    floats, which may differ in every step."""
    key: list[object] = []
    for value in values:
        kind = type(value)
        if kind in PLAIN:
            key.append(value)
        elif kind is list or kind is tuple:
            key.append(_signature(cast("Sequence", value)))
        elif kind is not float and is_tensor(value):
            key += (value.shape, value.dtype, value.stride())
    return tuple(key)


PLAIN = {int, bool, str, type(None)}
