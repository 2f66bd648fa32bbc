"""Checks the values of a saved timeline: a file from elsewhere can hold anything.

Each check raises a ValueError that names the first wrong value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast, get_args

from .event import COPY_KINDS, HOST_KINDS, HOST_LANE, EventKind, HazardKind

MOST_CHARACTERS = 10_000
"""The most characters of a name or a text. Names of C++ templates have some thousand."""
LONGEST_TIME = 1e12
"""Microseconds: eleven days, in which a float still distinguishes every nanosecond."""


def check_columns(columns: Mapping[str, Sequence[object]]) -> None:
    """Raises ValueError for values that no event can have, naming the first wrong one. `columns`
    already holds names and source lines in place of their numbers."""
    for name, shortest in (("start", -LONGEST_TIME), ("duration", 0)):
        limits = f"from {shortest:g} to {LONGEST_TIME:g}"
        says = f"the time {{}} is not a number of microseconds {limits}"
        check_numbers(columns[name], shortest, LONGEST_TIME, says)
    checked_whole(columns["bytes"], 2**63, "the number of bytes {} is not a whole one from 0 on")
    for name in ("pageable", "allowed"):
        checked_flags(columns[name])
    kinds, lanes = columns["kind"], columns["lane"]
    for kind, copy_kind, lane in dict.fromkeys(
        zip(kinds, columns["copy_kind"], lanes, strict=True)
    ):
        check_kind(kind, copy_kind, lane)
    if None in columns["name"]:
        raise ValueError("it holds an event without a name")
    launches = [launch for launch in columns["launched_by"] if launch is not None]
    says = f"an event is launched by event {{}} of {len(kinds)}"
    for launch in set(checked_whole(launches, len(kinds), says)):
        if kinds[launch] not in HOST_KINDS:
            raise ValueError(f"an event is launched by event {launch}, which the device ran")


def check_kind(kind: object, copy_kind: object, lane: object) -> None:
    """Raises ValueError for an event's kind that is unknown, or that its kind of copy or its lane
    contradicts."""
    if kind not in get_args(EventKind):
        raise ValueError(f"it holds an event of the unknown kind {shown(kind)}")
    if kind == "copy" and copy_kind not in COPY_KINDS:
        raise ValueError(f"it holds a copy of the unknown kind {shown(copy_kind)}")
    if kind != "copy" and copy_kind is not None:
        raise ValueError(f"it holds a {kind} with the kind of a copy, {shown(copy_kind)}")
    if lane is None or (kind in HOST_KINDS) != (lane == HOST_LANE):
        raise ValueError(f"it holds a {kind} on the lane {shown(lane)}")


def check_numbers(values: Sequence[object], low: float, high: float, says: str) -> None:
    """Raises ValueError unless all values are numbers from `low` to `high`. Its text is `says`,
    with the first wrong value in place of `{}`."""
    if {*map(type, values)} <= {int, float}:
        # This avoids a Python loop, since a file may hold millions of values. NaN fails both
        # comparisons.
        numbers = cast(Sequence[float], values)
        if all(map(float(low).__le__, numbers)) and all(map(float(high).__ge__, numbers)):
            return
    for value in values:
        if type(value) not in (int, float) or not low <= cast(float, value) <= high:
            raise ValueError(says.format(shown(value)))


def checked_whole(values: Sequence[object], end: int, says: str) -> Sequence[int]:
    """Returns `values` if all are whole numbers from 0 to below `end`. Otherwise raises ValueError:
    its text is `says`, with the first wrong value in place of `{}`."""
    numbers = cast(Sequence[int], values)
    if (
        {*map(type, values)} <= {int}
        and all(map((0).__le__, numbers))
        and all(map(end.__gt__, numbers))
    ):
        return numbers
    for value in values:
        if type(value) is not int or not 0 <= value < end:
            raise ValueError(says.format(shown(value)))
    return numbers


def checked_flags(values: Sequence[object]) -> Sequence[bool]:
    if {*map(type, values)} <= {bool}:
        return cast(Sequence[bool], values)
    for value in values:
        if not isinstance(value, bool):
            raise ValueError(f"the flag {shown(value)} is neither true nor false")
    return cast(Sequence[bool], values)


def checked_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} stands where a text belongs")
    if len(value) > MOST_CHARACTERS:
        raise ValueError(f"a text of {len(value):,} characters: {MOST_CHARACTERS:,} are the most")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the text {shown(value)} holds half a character") from None
    return value


def checked_hazard(kind: object) -> HazardKind:
    if kind not in get_args(HazardKind):
        raise ValueError(f"it holds a hazard of the unknown kind {shown(kind)}")
    return cast(HazardKind, kind)


def shown(value: object) -> str:
    """Returns a value as a message quotes it: in ASCII, at most 40 characters of it."""
    try:
        text = ascii(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits.
        return "of thousands of digits"
    return text if len(text) <= 40 else text[:37] + "..."
