"""Counts what each operator of PyTorch's database does to a device: waits, copies, kernels.

    python -m tests.accelerators.operators --device cuda --output assets/effects/GPU-operators.json
    python -m tests.accelerators.operators --device sim --against assets/effects/GPU-operators.json

An operator runs on one type, each of its first samples twice, and the second run is counted. The
second command lists the samples whose waits or copies differ from the file's. Both sides need the
same version of PyTorch, and the database needs `expecttest`.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch

import debubble
from tests.sim.conformance.database import MOST, mapped, operators, samples, types_of

COUNTS = ("host_syncs", "h2d_pageable", "h2d_pinned", "d2h", "d2d", "kernels")
HELD = COUNTS[:4]
"""The names of the counts (waits, uploads, downloads) in which sim must agree with a GPU."""
TYPES = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16)
"""The types to try: an operator runs on the first that CUDA has for it."""
SAMPLES = 6
DIFFERING = {
    "histc": "its samples differ between versions of PyTorch",
    "linalg.ldl_factor": "the values decide how many pivots the host reads",
    "linalg.ldl_factor_ex": "the values decide how many pivots the host reads",
    "linalg.pinv-singular": "the values decide how soon an iteration ends",
}
"""Operators whose waits and copies on sim differ from an H100's, and why."""
SECONDS = 60
"""The limit in seconds for one operator."""

Row = list[list[int] | str]
"""A row of one operator: for each of its samples the `COUNTS`, or the name of the error that it
raised."""


def measure(names: Iterable[str], accelerator: Any) -> Iterator[tuple[str, Row]]:
    """Yields (name, row) for each operator. Raises TimeoutError if one takes longer than
    `SECONDS`."""
    signal.signal(signal.SIGALRM, _give_up)
    for name in names:
        signal.alarm(SECONDS)
        yield name, row_of(name, accelerator)
        signal.alarm(0)


def _give_up(*_: object) -> None:
    raise TimeoutError


def row_of(name: str, accelerator: Any) -> Row:
    op, row = operators()[name], []
    dtype = next((dtype for dtype in TYPES if dtype in types_of(op)[0]), None)
    if dtype is None:
        return []
    try:
        found = list(samples(op, dtype))[:SAMPLES]
    except Exception as error:
        return [type(error).__name__]
    for sample in found:
        given = mapped((sample.input, sample.args, sample.kwargs), _to(accelerator.device))
        try:
            row.append(_counted(op, given, accelerator))
        except Exception as error:
            row.append(type(error).__name__)
    return row


def _to(device: torch.device) -> Any:
    return lambda value: value.to(device) if isinstance(value, torch.Tensor) else value


def _counted(op: Any, given: tuple[Any, tuple, dict], accelerator: Any) -> list[int]:
    first, rest, named = given
    op(first, *rest, **named)
    accelerator.synchronize()
    torch.manual_seed(0)
    with debubble.record(accelerator) as timeline:
        op(first, *rest, **named)
    counts = timeline.counts()
    return [counts[name] for name in COUNTS]


def in_processes(names: list[str], device: str, processes: int) -> dict[str, Row]:
    """Returns each operator's row, measured in `processes` processes at once. An operator that ends
    its process has the row ["aborted"]."""
    found: dict[str, Row] = {}
    with ThreadPoolExecutor(processes) as pool:
        for rows in pool.map(lambda n: _restarted(names[n::processes], device), range(processes)):
            found |= rows
    return {name: found[name] for name in names}


def _restarted(names: list[str], device: str) -> dict[str, Row]:
    found: dict[str, Row] = {}
    while left := names[len(found) :]:
        command = [sys.executable, "-m", __spec__.name, "--device", device, "--worker"]
        worker = subprocess.run(command, input=json.dumps(left), stdout=subprocess.PIPE, text=True)
        found |= map(json.loads, worker.stdout.splitlines())
        if len(found) < len(names):
            found[names[len(found)]] = ["aborted"]
    return found


class Difference(NamedTuple):
    operator: str
    sample: int
    here: dict[str, int] | str
    there: dict[str, int] | str


def compare(here: dict[str, Row], there: dict[str, Row]) -> tuple[list[Difference], int]:
    """Returns the samples whose waits or copies differ between the rows `here` (sim) and `there` (a
    GPU), and how many samples wait or copy on either side. Samples that raise an error on the GPU
    are left out. A sample that sim refuses counts only if it waits or copies on the GPU."""
    differing, total = [], 0
    for name in here.keys() & there.keys():
        for number, (ours, theirs) in enumerate(zip(here[name], there[name], strict=False)):
            if isinstance(theirs, str):
                continue
            held = [_held(ours), _held(theirs)]
            if isinstance(ours, str) and not held[1]:
                continue
            total += any(held)
            if held[0] != held[1]:
                differing.append(Difference(name, number, *held))
    return sorted(differing), total


def _held(entry: list[int] | str) -> dict[str, int] | str:
    if isinstance(entry, str):
        return entry
    return {
        name: count for name, count in zip(COUNTS, entry, strict=True) if name in HELD and count
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__)
    parser.add_argument("names", nargs="*", help="only operators whose names begin so")
    parser.add_argument("--device", choices=("cuda", "sim"), default="sim")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, help="where the counts are written")
    parser.add_argument("--against", type=Path, help="a file of counts to compare with")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if find_spec("expecttest") is None:
        parser.error("PyTorch's database needs a package that is missing: pip install expecttest")
    warnings.simplefilter("ignore")
    MOST[0] = SAMPLES
    if options.worker:
        for line in measure(json.load(sys.stdin), debubble.accelerator(options.device)):
            print(json.dumps(line), flush=True)
        return 0
    names = [n for n in operators() if not options.names or any(map(n.startswith, options.names))]
    found = in_processes(names, options.device, options.processes)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(as_json(found, options.device))
    counted = sum(not isinstance(entry, str) for row in found.values() for entry in row)
    refused = [n for n, row in found.items() if any(isinstance(entry, str) for entry in row)]
    print(f"{len(found)} operators, {counted} samples counted on {options.device}")
    print("with samples that are refused:", ", ".join(refused) or "none")
    return said(*compare(found, read(options.against))) if options.against else 0


def said(differing: list[Difference], total: int) -> int:
    for name, number, here, there in differing:
        print(f"{name}, sample {number}: {here or 'nothing'} here, {there or 'nothing'} there")
    print(f"{total} samples wait or copy, {len(differing)} of them otherwise here than there")
    return int(bool(differing))


def as_json(rows: dict[str, Row], device: str) -> str:
    """Returns the text of the JSON file with these rows, one operator a line."""
    gpu = torch.cuda.get_device_name() if device == "cuda" else "sim"
    day = datetime.now(UTC).date().isoformat()
    meta = {"gpu": gpu, "torch": torch.__version__, "date": day, "counts": COUNTS}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    return f'{{\n"meta": {json.dumps(meta)},\n"operators": {{\n{lines}\n}}\n}}\n'


def read(path: Path) -> dict[str, Row]:
    return json.loads(path.read_text(encoding="utf-8"))["operators"]


if __name__ == "__main__":
    sys.exit(main())
