"""Runs a program of the race on sim, as the PyTorch code that its words stand for."""

from __future__ import annotations

import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

import debubble
from debubble.accelerator.choice import Accelerator
from debubble.contract.source_line import SourceLine
from debubble.timeline.timeline import Timeline
from debubble.views.race.facts import SMALL, language

WORDS: Any = language()["words"]
UNITS: Any = language()["units"]
FILE = "/race/program.py"


class Tensors(defaultdict):
    """Tensors by their size, made when one is first used."""

    def __init__(self, make: Callable[[int], torch.Tensor]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, size: int) -> torch.Tensor:
        self[size] = self.make(size)
        return self[size]


def record(text: str, gpu: Accelerator) -> Timeline:
    """Returns the recording of a program: run once before, and its graphs captured."""
    lines = text.split("\n")
    names = {**tools(gpu), "graphs": {}, "events": defaultdict(gpu.event)}
    for line, block in graphs_of(lines).items():
        graph = names["graphs"][line] = gpu.graph()
        code = compiled("\n" * line + textwrap.dedent("\n".join(map(python_of, block))))
        exec(code, names)
        with graph.capture():
            exec(code, names)
    code = compiled("\n".join(without_graph_bodies(lines)))
    exec(code, names)
    with debubble.record(gpu) as timeline:
        exec(code, names)
    return timeline


@cache
def tools(gpu: Accelerator) -> dict[str, Any]:
    """Returns the names that the PyTorch code of the words uses."""
    device = gpu.device

    def your_python(microseconds: float) -> None:
        sim: Any = gpu._device  # type: ignore[attr-defined]
        line = SourceLine(FILE, sys._getframe(1).f_lineno, "")
        if microseconds:
            sim.note("python", "your Python", "host", sim.now, microseconds, line)
        sim.host_works(microseconds)

    return {
        "gpu": gpu,
        "device": device,
        "x": torch.zeros(SMALL, device=device),
        "number": torch.zeros((), device=device),
        "matrix": Tensors(lambda size: torch.zeros(size, size, device=device)),
        "pinned": Tensors(lambda n: torch.zeros(n, dtype=torch.uint8, pin_memory=True)),
        "pageable": Tensors(lambda n: torch.zeros(n, dtype=torch.uint8)),
        "on_device": Tensors(lambda n: torch.zeros(n, dtype=torch.uint8, device=device)),
        "streams": {number: gpu.stream() for number in (1, 2, 3)},
        "your_python": your_python,
    }


def compiled(source: str) -> Any:
    return compile(source, FILE, "exec")


def python_of(line: str) -> str:
    """Returns a program's line as Python, as indented as it was."""
    words, _, _ = line.partition("#")
    if not words.strip():
        return ""
    word, *rest = words.split()
    values: dict[str, object] = {}
    for kind in WORDS[word]["takes"]:
        if kind in UNITS:
            amount, unit, *rest = rest
            value = float(amount) * UNITS[kind][unit]
            values[kind] = value / 1000 if word == "sleep" else value
            if kind == "bytes":
                values[kind] = round(value)
        else:
            values[kind], *rest = rest
    python = WORDS[word]["python"].format(line=0, **values)
    if word == "upload":
        python = f"pin = {values['memory'] == 'pinned'}; {python.partition('=')[0]}=pin)"
    return " " * (len(line) - len(line.lstrip())) + python


def graphs_of(lines: list[str]) -> dict[int, list[str]]:
    """Returns the indented lines of each graph, by the number of the line `graph`."""
    return {
        number: block_below(lines, number)
        for number, line in enumerate(lines, 1)
        if line.split()[:1] == ["graph"]
    }


def block_below(lines: list[str], number: int) -> list[str]:
    indent = indent_of(lines[number - 1])
    block = []
    for line in lines[number:]:
        if line.strip() and indent_of(line) <= indent:
            break
        block.append(line)
    return block


def without_graph_bodies(lines: list[str]) -> list[str]:
    """Returns the program as Python lines, with an empty line for each line within a graph."""
    inside = {
        number + offset
        for number, block in graphs_of(lines).items()
        for offset in range(1, len(block) + 1)
    }
    return [
        "" if number in inside else python_of(line).replace("graphs[0]", f"graphs[{number}]")
        for number, line in enumerate(lines, 1)
    ]


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def rows(timeline: Timeline) -> dict[str, list[list[object]]]:
    """Returns the events and bubbles of a recording as the page's clock has them."""
    events = [
        [e.kind, e.name, e.lane, e.source and e.source.line, e.copy_kind, e.launched_by]
        for e in timeline.events
    ]
    times = [[e.start, e.duration] for e in timeline.events]
    bubbles = [
        [b.cause, b.source and b.source.line, b.start, b.start + b.duration]
        for b in timeline.bubbles()
    ]
    return {"events": events, "times": times, "bubbles": bubbles}
