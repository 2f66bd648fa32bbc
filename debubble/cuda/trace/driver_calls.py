"""Finds host calls that Kineto leaves out: of the driver's functions it records only kernel
launches."""

from __future__ import annotations

from debubble.traces.names import HOST_CATEGORIES

from .kineto_rows import KinetoRow
from .marks import COPY, FAILED


def unrecorded_copy_calls(rows: list[KinetoRow]) -> list[KinetoRow]:
    """Returns a row of a host call for each copy by the driver that Kineto left out, made from the
    copy's mark; its correlation is that of the copy on the device.

    Such a copy has a correlation that no host call has. The driver numbers calls in their order,
    which is also the order of the marks.
    """
    calls = [row for row in rows if row.get("cat") in HOST_CATEGORIES]
    known = {row["args"].get("correlation") for row in calls}
    copied = {
        row["args"]["correlation"]
        for row in rows
        if row.get("cat") == "gpu_memcpy" and "correlation" in row["args"]
    }
    marks = _marks_of_copies(rows, {row["name"] for row in calls})
    return [
        {
            **mark,
            "cat": "cuda_driver",
            "name": _function(mark),
            "args": {"correlation": correlation},
        }
        for mark, correlation in zip(marks, sorted(copied - known), strict=False)
    ]


def _marks_of_copies(rows: list[KinetoRow], recorded_functions: set[str]) -> list[KinetoRow]:
    """Returns the marks of copies by the driver in order of time, without those of failed copies
    and those whose call Kineto recorded after all."""
    failures = [row for row in rows if row["name"] == FAILED]
    marks = [
        row
        for row in rows
        if row["name"].startswith(COPY)
        and _function(row) not in recorded_functions
        and not any(_is_inside(failure, row) for failure in failures)
    ]
    return sorted(marks, key=lambda row: row["ts"])


def _function(mark: KinetoRow) -> str:
    return mark["name"].removeprefix(COPY)


def _is_inside(row: KinetoRow, mark: KinetoRow) -> bool:
    within = mark["ts"] <= row["ts"] <= mark["ts"] + mark["dur"]
    return within and row["tid"] == mark["tid"]
