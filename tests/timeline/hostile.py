"""Untrusted timeline files that cost more than their size shows, and a program that opens them.

python -m tests.timeline.hostile              a table: every kind, opened in each way
python -m tests.timeline.hostile WAY FILE…    opens files, and prints one JSON object for each
"""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import typer

from debubble.timeline import Timeline, TraceFileError

WAYS = ("load", "trace", "perfetto", "png", "every")
BASE_BYTES, TIMES = 150e6, 20
BASE_SECONDS, SECONDS_A_MB = 2.0, 0.2

NAMES = ("host", "stream 0", "k", "kernel", "launch", "sync", "copy", "h2d_pageable")
ORDERS = "\x1b]0;owned\x07\x1b[2J\x00\r\u202e\u2066\u2028\x85$\\bad$ $x_{$ \\frac 中\U0001f600"


def timeline(count: int, top: str = "", **changes: object) -> str:
    """Returns the text of a file with `count` kernels, as short as possible. `changes` are other
    columns of the events or other entries; `top` is text that is inserted at the beginning."""
    columns: dict[str, object] = {
        "kind": [3] * count, "name": [2] * count, "lane": [1] * count,
        "start": [9 * number for number in range(count)], "duration": [1] * count,
        "source": [0] * count, "copy_kind": [None] * count, "bytes": [0] * count,
        "launched_by": [None] * count,
    }  # fmt: skip
    columns |= {name: changes.pop(name) for name in [*changes] if name in columns}
    parts = {
        "format": "debubble timeline", "version": 1, "accelerator": "sim", "description": "d",
        "modelled": True, "time_unit": "us", "names": NAMES, "sources": [["a.py", 1, "f", "x"]],
        "hazards": [], "events": columns, **changes,
    }  # fmt: skip
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=False)
    return text.replace("{", "{" + top, 1)


def filled(unit: str, size: int) -> str:
    """Returns the text of a file with an unknown entry, a list that repeats `unit` up to `size`
    characters."""
    return timeline(3, '"x":[' + unit * (size // len(unit)) + "0],")


def keys(size: int) -> str:
    return timeline(3, '"x":{' + "".join(f'"{n:x}":0,' for n in range(size // 10)) + '"y":0},')


def lanes(count: int, name: Callable[[int], str]) -> str:
    names = [*NAMES, *map(name, range(count))]
    return timeline(count, names=names, lane=[len(NAMES) + n for n in range(count)])


def lines_inside(count: int) -> str:
    """Returns the text of a file of `count` events, all for the gradient of a line that has four
    times as many inner lines."""
    sources = [["a.py", n, "f", "x"] for n in range(count)]
    insides = [[0] * (count * 4), *([] for _ in range(count - 1))]
    numbers = {"source_insides": insides, "source_forwards": [None, *[0] * (count - 1)]}
    return timeline(count, sources=sources, source=[*range(count)], **numbers)


def pairs(count: int) -> str:
    """Returns the text of a file with `count` events in threes: a sync, a launch, and the kernel of
    this launch."""
    third = count // 3
    return timeline(
        3 * third, kind=[5, 4, 3] * third, lane=[0, 0, 1] * third,
        launched_by=[who for n in range(third) for who in (None, None, 3 * n + 1)],
    )  # fmt: skip


def many_lines(count: int) -> str:
    sources = [["a.py", n, "f", f"x{n}"] for n in range(count)]
    return timeline(count, sources=sources, source=[*range(count)])


def kinds(large: int, events: int) -> dict[str, Callable[[], str | bytes]]:
    """Returns {kind: function that returns a file's text or bytes}. Some files have `large` bytes,
    some `events` events."""
    return {
        "empty": lambda: "",
        "not text": lambda: b"\xff\xfe" + timeline(3).encode("utf-16-le"),
        "a gzip bomb": lambda: gzip.compress(b"0" * 2**26),
        "cut off": lambda: timeline(1_000)[:-9],
        "nested deep": lambda: timeline(3, '"x":' + "[" * 10**6 + "]" * 10**6 + ","),
        "short lists": lambda: filled("[],", large),
        "empty objects": lambda: filled("{},", large),
        "objects with lists": lambda: filled('{"a":[]},', large),
        "an object of many keys": lambda: keys(large),
        "numbers": lambda: filled("1.5,", large),
        "words": lambda: filled('"ab\U0001f600",', large),
        "a Chrome trace": lambda: '{"traceEvents":[' + '{"ph":"X"},' * (large // 11) + "0]}",
        "no numbers": lambda: timeline(4, start=[float("nan"), float("inf"), -1e308, 10**400]),
        "enormous times": lambda: timeline(4, start=[-1e12, 1e12, 0, 1e-300], duration=[1e12] * 4),
        "negative durations": lambda: timeline(4, duration=[-1] * 4),
        "launched by a text": lambda: timeline(2, kind=[4, 4], lane=[0, 0], launched_by=["0", "1"]),
        "launched by itself": lambda: timeline(2, kind=[4, 4], lane=[0, 0], launched_by=[0, 1]),
        "keys twice": lambda: timeline(4, '"events":[],' * 10_000),
        "columns missing": lambda: timeline(4, events={"kind": [3] * 4}),
        "wrong types": lambda: timeline(4, names={"a": 1}, events=[[]], sources="x"),
        "names that are orders": lambda: lanes(9, lambda n: ORDERS + str(n)),
        "everything in orders": lambda: timeline(
            4, names=["host", ORDERS, ORDERS * 9, "kernel"], description=ORDERS * 20,
            sources=[[ORDERS, 1, ORDERS, ORDERS * 20]],
            hazards=[["read_before_sync", ORDERS, 0, 0]],
        ),
        "a name of megabytes": lambda: timeline(4, description="x" * (large // 4)),
        "long names of lanes": lambda: lanes(500, lambda n: f"{n} " + "W" * 9_990),
        "many lanes": lambda: lanes(10_000, lambda n: f"stream {n}"),
        "lines inside lines": lambda: lines_inside(3_000),
        "many lines": lambda: many_lines(events),
        "many events at once": lambda: timeline(events, start=[0] * events),
        "many kernels": lambda: timeline(events),
        "many waits": lambda: pairs(events),
        "events with long names": lambda: timeline(
            events, names=["host", "stream 0", "k" * 10_000, "kernel"],
            sources=[["a.py", 1, "f", "x" * 10_000]],
        ),
    }  # fmt: skip


def write(folder: Path, large: int, events: int) -> dict[str, Path]:
    paths = {}
    for kind, content in kinds(large, events).items():
        made = content()
        paths[kind] = folder / f"{kind.replace(' ', '_')}.json"
        paths[kind].write_bytes(made if isinstance(made, bytes) else made.encode())
    return paths


def opened(way: str, path: Path) -> str:
    """Opens the file in this way ("trace", "perfetto", "png", "every" or just loading it). Returns
    the printed text, or "refused: " and the error."""
    printed, said = io.StringIO(), io.StringIO()
    if way in ("trace", "every"):
        from debubble.commands.trace import trace

        with redirect_stdout(printed), redirect_stderr(said), suppress(typer.Exit):
            trace(path, width=100)
    if way == "trace" or said.getvalue():
        return printed.getvalue() or f"refused: {said.getvalue().strip()}"
    try:
        timeline = Timeline.load(path)
    except TraceFileError as refusal:
        return f"refused: {refusal}"
    if way in ("perfetto", "every"):
        timeline.to_perfetto(path.with_suffix(".perfetto"))
        if way == "every":
            json.loads(path.with_suffix(".perfetto").read_text())
        path.with_suffix(".perfetto").unlink()
    if way in ("png", "every"):
        from debubble.views.timeline.picture import draw_png

        assert draw_png(timeline)
    return printed.getvalue()


def peak_bytes() -> int:
    """Returns this process's own peak memory in bytes; `ru_maxrss` would include its parent's."""
    with open("/proc/self/status") as status:
        return 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def open_all(way: str, files: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.json"
        small.write_text(timeline(4))
        opened(way, small)  # The imports are not the files' cost.
    start = cpu_seconds()
    for file in files:
        said = opened(way, Path(file))
        seconds = cpu_seconds() - start
        print(json.dumps({"said": said, "peak": peak_bytes(), "seconds": seconds}), flush=True)


def open_apart(way: str, *files: Path) -> list[dict]:
    """Opens the files one after the other in one new process, and returns what was printed for
    each. Their costs add up."""
    command = [sys.executable, "-m", "tests.timeline.hostile", way, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def most_bytes(path: Path) -> float:
    return BASE_BYTES + TIMES * path.stat().st_size


def most_seconds(path: Path) -> float:
    return BASE_SECONDS + SECONDS_A_MB * path.stat().st_size / 1e6


def print_table(large: int, events: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in write(Path(folder), large, events).items():
            megabytes = path.stat().st_size / 1e6
            limits = f"≤ {most_bytes(path) / 1e6:,.0f} MB, {most_seconds(path):.1f} s"
            print(f"{kind:24} {megabytes:6.1f} MB  {limits:18}", end="", flush=True)
            for way in WAYS[:-1]:
                (cost,) = open_apart(way, path)
                over = cost["peak"] > most_bytes(path) or cost["seconds"] > most_seconds(path)
                figures = f"{cost['peak'] / 1e6:5,.0f} MB {cost['seconds']:5.1f} s"
                print(f"  {way} {figures}{'!' if over else ' '}", end="", flush=True)
            said = cost["said"].replace(folder + os.sep, "")
            print(f"  {said[:90]!r}", flush=True)
            path.unlink()


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WAYS:
        open_all(sys.argv[1], sys.argv[2:])
    else:
        print_table(16_000_000, 200_000)
