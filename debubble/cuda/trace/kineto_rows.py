"""The types of Kineto's Chrome trace, limited to the parts that are read here."""

from __future__ import annotations

from typing import NotRequired, TypedDict

Arguments = TypedDict(
    "Arguments", {"correlation": int, "External id": int, "stream": int, "bytes": int}, total=False
)
"""The arguments of a row. `correlation` is the same number for a CUDA call and for the device work
that it starts; `External id` is the same for an operator and for its calls."""


class KinetoRow(TypedDict):
    """A row of the trace, a stretch of time: its start `ts` and its duration `dur` are in
    microseconds; `tid` is the thread of a host row. Rows with a `cat` have `args`."""

    ph: str
    cat: NotRequired[str]
    name: str
    ts: float
    dur: float
    tid: int
    args: Arguments


class Trace(TypedDict):
    traceEvents: list[KinetoRow]
