"""Measures the same checkpoint under this engine and under transformers:
`python -m solutions.models.measure.peers SHAPE_OR_FOLDER`.

A shape, such as qwen3_0.6b or llama_3_8b, is written to disk with random weights first. Each
contender has a process of its own, so that none shares memory, caches or a compiler with another.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from debubble.accelerator import current
from solutions.measure.benchmark import write_record
from solutions.measure.memory import nominal_bytes_per_s

from ..checkpoints.folder import CheckpointFolder
from ..checkpoints.random_folder import SHAPES, write_folder
from .contenders import CONTENDERS, Load, Served
from .step_bytes import step_bytes, step_ms

SECONDS = 150
"""The time limit of one contender, unless `--seconds` is given."""
READ = 16 << 20
COLUMNS = {
    "ready s": lambda served: f"{served.ready_s:.1f}",
    "first answer s": lambda served: f"{served.first_answer_s:.1f}",
    "load GB/s": lambda served: f"{served.load_gb_per_s:.2f}",
    "host GB": lambda served: f"{served.peak_host_gb:.2f}",
    "first ms": lambda served: f"{served.first_token_ms:.0f}",
    "tok/s": lambda served: f"{served.tokens_per_s:.0f}",
    "decode tok/s": lambda served: f"{served.decode_tokens_per_s:.0f}",
}


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    console = Console()
    if options.checkpoint not in SHAPES:
        return _compare(Path(options.checkpoint), options, console)
    with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=options.scratch) as scratch:
        folder = write_folder(SHAPES[options.checkpoint], Path(scratch) / options.checkpoint)
        return _compare(folder, options, console)


def _compare(folder: Path, options: argparse.Namespace, console: Console) -> int:
    """Measures the contenders, prints their figures and writes them to --output. Returns 0, or 1 if
    one of them has failed."""
    checkpoint = CheckpointFolder.read(folder)
    load = Load(options.batch, options.prompt_tokens, options.new_tokens, options.runs)
    found: dict[str, Served] = {}
    failed: dict[str, str] = {}
    for name in options.only or CONTENDERS:
        read_once({tensor.path for tensor in checkpoint.tensors.values()})
        try:
            for _ in range(options.starts):
                found[name] = run_alone(name, folder, load, options.seconds)
        except RuntimeError as error:
            found.pop(name, None)
            failed[name] = str(error)
        console.print(f"{name}: {failed.get(name, 'measured')}", markup=False, soft_wrap=True)
    largest = checkpoint.largest_file / 1e9
    console.print(f"{folder.name}: its largest file has {largest:.2f} GB; {load}", markup=False)
    if found:
        console.print(table_of(found))
    decode = _decode_steps(folder, load, found)
    for name, share in decode.get("shares", {}).items():
        console.print(f"{name}: {share:.0%} of the memory's nominal rate in decodes", markup=False)
    if options.output:
        name = f"peers_{folder.name}"
        record = {
            "checkpoint": folder.name,
            "largest_file_gb": largest,
            "load": load._asdict(),
            "starts": options.starts,
            "contenders": {name: asdict(served) for name, served in found.items()},
            "failed": failed,
            "decode": decode,
        }
        path = write_record(options.output / f"{name}.json", name, current(), record)
        console.print(f"written to {path}", markup=False, soft_wrap=True)
    return 1 if failed else 0


def _decode_steps(folder: Path, load: Load, found: dict[str, Served]) -> dict[str, Any]:
    """Returns the milliseconds of a decode step by contender, and where they are known: the bytes
    that a step reads, the milliseconds in which the memory could read them at its nominal rate,
    and by contender the share, 0 to 1, of that rate that it reaches."""
    steps = {name: step_ms(served, load) for name, served in found.items()}
    config = json.loads((folder / "config.json").read_text())
    read = step_bytes(config, load, nominal_bytes_per_s(current()))
    figures: dict[str, Any] = {"step_ms": steps}
    if read is not None:
        figures["bytes"] = asdict(read)
        if (least := read.least_ms) is not None:
            shares = {name: least / of_name for name, of_name in steps.items()}
            figures |= {"least_ms": least, "shares": shares}
    return figures


def table_of(found: dict[str, Served]) -> Table:
    first = next(iter(found.values()))
    table = Table(title=f"measured on {first.device}")
    table.add_column("")
    for heading in ("ratio", *COLUMNS):
        table.add_column(heading, justify="right")
    for name, served in found.items():
        ratio = f"{served.tokens_per_s / first.tokens_per_s:.2f}×"
        table.add_row(name, ratio, *(cell(served) for cell in COLUMNS.values()))
    return table


def run_alone(name: str, folder: Path, load: Load, seconds: float) -> Served:
    """Returns the figures of the contender `name`, measured in a process of its own. Raises
    RuntimeError if that fails, with its last line on stderr, or takes longer than `seconds`."""
    command = [sys.executable, "-m", "solutions.models.measure.contenders"]
    try:
        process = subprocess.run(
            [*command, name, str(folder), json.dumps(load)],
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not ready after {seconds:g} s") from None
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"failed: {lines[-1]}")
    return Served(**json.loads(process.stdout.strip().splitlines()[-1]))


def read_once(paths: Iterable[Path]) -> None:
    """Reads the files once, so that all contenders find them in the system's cache."""
    for path in sorted(paths):
        with path.open("rb", buffering=0) as file:
            while file.read(READ):
                pass


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m solutions.models.measure.peers", description=__doc__
    )
    parser.add_argument("checkpoint", help=f"a folder, or one of {', '.join(SHAPES)}")
    parser.add_argument("--only", action="append", choices=CONTENDERS)
    parser.add_argument("--output", type=Path, help="folder for the figures, as JSON")
    parser.add_argument(
        "--scratch", type=Path, help="folder for a shape's checkpoint; default: /tmp"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="limit of one contender")
    parser.add_argument(
        "--starts",
        type=int,
        default=1,
        help="how often each contender starts; the last start, which finds the caches of compilers "
        "that the starts before it have filled, is shown",
    )
    for name, value in Load()._asdict().items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
