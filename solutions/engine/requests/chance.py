"""Checks the sampling parameters that are numbers when a request arrives, before anything uses
them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from solutions.common.host_integers import is_integer

from .request import SamplingParams


@dataclass(frozen=True)
class Interval:
    """The numbers that a sampling parameter may have: `least` to `most`, or above `least` if
    `without_least` is true."""

    least: float
    most: float
    without_least: bool = False

    def __contains__(self, value: object) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):  # type: ignore[arg-type]  # a number
            return False
        is_above = value > self.least if self.without_least else value >= self.least  # type: ignore[operator]  # a number
        return is_above and value <= self.most  # type: ignore[operator]  # a number

    def __str__(self) -> str:
        above = "above" if self.without_least else "at least"
        return f"a number {above} {self.least:g} and at most {self.most:g}"


INTERVALS = {
    "temperature": Interval(0.0, 100.0),
    "top_p": Interval(0.0, 1.0, without_least=True),
    "min_p": Interval(0.0, 1.0),
    "presence_penalty": Interval(-100.0, 100.0),
    "frequency_penalty": Interval(-100.0, 100.0),
    "repetition_penalty": Interval(0.0, 100.0, without_least=True),
}
COLDEST = 1e-4
"""The lowest temperature above 0. Dividing logits by less would overflow their differences."""


def check_chance(request_id: str, sampling: SamplingParams) -> None:
    """Raises ValueError, naming the request, the field and the value, for a number out of range."""
    for name, interval in INTERVALS.items():
        value = getattr(sampling, name)
        if value not in interval:
            raise ValueError(f"request {request_id!r}: {name} is {_shown(value)}: give {interval}")
    if 0 < sampling.temperature < COLDEST:
        raise ValueError(
            f"request {request_id!r}: temperature is {sampling.temperature!r}: give 0 for the most "
            f"likely token, or at least {COLDEST:g}"
        )
    top_k, seed = sampling.top_k, sampling.seed
    if top_k is not None and (not is_integer(top_k) or not 1 <= top_k < 2**31):
        raise ValueError(
            f"request {request_id!r}: top_k is {_shown(top_k)}: give an integer of at least 1, or "
            "None for all tokens"
        )
    if seed is not None and (not is_integer(seed) or not 0 <= seed < 2**63):
        raise ValueError(
            f"request {request_id!r}: seed is {_shown(seed)}: give an integer from 0 to 2**63 - 1, "
            "or None"
        )


def _shown(value: object) -> str:
    """Returns a number or word as it is, and of all other values their class, since printing a
    tensor reads it from the device."""
    is_plain = value is None or isinstance(value, int | float | str)
    return repr(value) if is_plain else f"a {type(value).__name__}"
