"""The results of comparing forwards: tables to read, and a record to keep."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from rich.box import SIMPLE
from rich.table import Table

from solutions.measure.benchmark import today, versions

from .peer import NAME

WAYS = {
    "as_called_us": "as called, on an idle device",
    "gpu_us": "GPU alone, behind a loaded queue",
}


class Case(NamedTuple):
    sequences: str
    normalizes: bool
    """True if the forward normalises queries and keys; False if its inputs come normalised."""
    with_states: bool
    """True if the forward starts from states and returns its final states."""

    @property
    def normalized(self) -> str:
        return "in the kernel" if self.normalizes else "before"


@dataclass(frozen=True)
class Times:
    """Median microseconds of one call of a forward, measured in two ways."""

    as_called_us: float
    """Microseconds on an idle device, which waits for the host: includes the host's time."""
    gpu_us: float
    """Microseconds after other work during which the host queued the call: the device's time
    alone."""


@dataclass(frozen=True)
class Errors:
    """How far the results of a forward are from those of the recurrence in float32: the norm of the
    difference, relative to the norm of the right result."""

    o: float
    final_state: float


@dataclass(frozen=True)
class Comparison:
    """Results of comparing the forwards "ours", with the tables of the step; "no tables", which
    makes them in each call; and "peer", if it is installed."""

    accelerator: str
    shape: Mapping[str, int | str]
    lengths: Mapping[str, Sequence[int]]
    """Lengths in tokens of the sequences of each batch, by the batch's name."""
    runs: int
    peer: str | None
    """The version of the peer's package; None if the peer wasn't measured."""
    times: Mapping[Case, Mapping[str, Times]]
    errors: Mapping[str, Mapping[str, Errors]]
    """Errors by where queries and keys are normalised, "in the kernel" or "before", then by the
    forward's name."""
    planning_us: Mapping[int, float]
    """Microseconds that the host takes to plan the tables, by the number of sequences."""


def ratios(comparison: Comparison, way: str, name: str = "ours") -> list[float]:
    """Returns how many times as long the peer takes as the forward `name`, for each case in order;
    `way` is a field of Times. Empty without a peer."""
    return [
        getattr(forwards["peer"], way) / getattr(forwards[name], way)
        for forwards in comparison.times.values()
        if "peer" in forwards
    ]


def mean_ratios(comparison: Comparison) -> dict[str, dict[str, float]]:
    """Returns the geometric means of `ratios`, by field of Times, then by the forward that the peer
    is compared with; empty without a peer."""
    if comparison.peer is None:
        return {}
    return {
        way: {
            name: statistics.geometric_mean(ratios(comparison, way, name))
            for name in ("ours", "no tables")
        }
        for way in WAYS
    }


def tables_of(comparison: Comparison) -> Iterator[Table]:
    for way, words in WAYS.items():
        yield _times_table(comparison, way, words)
    yield _errors_table(comparison)


def _times_table(comparison: Comparison, way: str, words: str) -> Table:
    peer = f"{NAME} {comparison.peer}" if comparison.peer else "no peer"
    table = Table(title=f"Forward, µs {words}\n{comparison.accelerator}, {peer}", box=SIMPLE)
    for column in ("sequences", "normalised", "states"):
        table.add_column(column, no_wrap=True)
    for column in ("ours", "no tables", "peer", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    of_peer = ratios(comparison, way)
    for row, (case, forwards) in enumerate(comparison.times.items()):
        table.add_row(
            case.sequences,
            case.normalized,
            "yes" if case.with_states else "no",
            *(f"{getattr(forwards[name], way):.0f}" for name in ("ours", "no tables")),
            f"{getattr(forwards['peer'], way):.0f}" if of_peer else "",
            f"{of_peer[row]:.2f}" if of_peer else "",
        )
    if of_peer:
        mean = mean_ratios(comparison)[way]["ours"]
        table.add_row("geometric mean", "", "", "", "", "", f"{mean:.2f}")
    return table


def _errors_table(comparison: Comparison) -> Table:
    table = Table(title="Relative errors against the recurrence in float32", box=SIMPLE)
    for column in ("normalised", "forward", "o", "final state"):
        table.add_column(column, no_wrap=True)
    for normalized, forwards in comparison.errors.items():
        for name, errors in forwards.items():
            table.add_row(normalized, name, f"{errors.o:.1e}", f"{errors.final_state:.1e}")
    return table


def write_record(folder: Path, comparison: Comparison) -> Path:
    """Writes the comparison to `folder`/gdn_forward.json and returns the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "gdn_forward.json"
    record = {
        "benchmark": "gdn_forward",
        "accelerator": comparison.accelerator,
        "date": today(),
        "versions": versions() | {NAME: comparison.peer},
        "shape": dict(comparison.shape),
        "lengths": {name: list(lengths) for name, lengths in comparison.lengths.items()},
        "runs": comparison.runs,
        "cases": [
            {
                "sequences": case.sequences,
                "normalized": case.normalized,
                "with_states": case.with_states,
                "forwards": {name: asdict(times) for name, times in forwards.items()},
            }
            for case, forwards in comparison.times.items()
        ],
        "geometric_means_of_peer_over": mean_ratios(comparison),
        "relative_errors": {
            normalized: {name: asdict(errors) for name, errors in forwards.items()}
            for normalized, forwards in comparison.errors.items()
        },
        "planning_us": {str(number): took for number, took in comparison.planning_us.items()},
    }
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path
