"""What Kineto writes: a Chrome trace, as far as it is read here."""

from __future__ import annotations

from typing import NotRequired, TypedDict

Arguments = TypedDict(
    "Arguments", {"correlation": int, "External id": int, "stream": int, "bytes": int}, total=False
)
"""`correlation` is one number for a call to CUDA and for what it makes the device do; `External
id` one for an operator and for its calls."""


class Row(TypedDict):
    """A stretch of time: `ts`, when it began, and `dur` are in microseconds; `tid` is the thread of
    a host row. Rows with a `cat` of their own have `args`."""

    ph: str
    cat: NotRequired[str]
    name: str
    ts: float
    dur: float
    tid: int
    args: Arguments


class Trace(TypedDict):
    traceEvents: list[Row]
