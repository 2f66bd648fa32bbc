"""Makes a large trace by repeating one: python -m tests.traces.repeated FROM TO MEGABYTES"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

APART = 1000.0
"""Microseconds between the end of the trace and its repetition."""
COUNTED = ("correlation", "External id")


def repeat(source: Path, target: Path, megabytes: float) -> int:
    """Writes `source` again and again, with later times and numbers of its own each time, until
    `target` has this size. Returns the number of events."""
    trace = json.loads(gzip.decompress(source.read_bytes()))
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X" and event["ts"]]
    first = min(event["ts"] for event in events)
    length = max(event["ts"] + event.get("dur", 0) for event in events) - first + APART
    numbers = 1 + max(number(event) for event in events)
    written = 0
    with target.open("w") as file:
        header = json.dumps({**trace, "traceEvents": []}, indent=2)
        start, _, end = header.rpartition('"traceEvents": []')
        file.write(start + '"traceEvents": [\n')
        while file.tell() < megabytes * 1e6:
            time = written // len(events)
            texts = (text(event, time * length, time * numbers) for event in events)
            file.write((",\n" if written else "") + ",\n".join(texts))
            written += len(events)
        file.write("\n]" + end)
    return written


def number(event: dict[str, Any]) -> int:
    args = event.get("args") or {}
    return max(int(args.get(name) or 0) for name in COUNTED)


def text(event: dict[str, Any], later: float, more: int) -> str:
    args = event.get("args") or {}
    counted = {name: args[name] + more for name in COUNTED if args.get(name)}
    moved = {**event, "ts": event["ts"] + later}
    if counted:
        moved["args"] = {**args, **counted}
    return json.dumps(moved, indent=1)


if __name__ == "__main__":
    print(repeat(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])), "events")
