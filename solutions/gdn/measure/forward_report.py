"""The results of comparing forwards: tables to read, and a record to keep."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from solutions.measure.benchmark import today, versions

from .batches import GatedBatch
from .forward_calls import NO_TABLES, OURS
from .peer import PEERS

WAYS = {
    "as_called_us": "as called, on an idle device",
    "gpu_us": "GPU alone, behind a loaded queue",
}


@dataclass(frozen=True)
class Times:
    """Microseconds of one call of a forward, measured in two ways."""

    as_called_us: float
    """Median on an idle device, which waits for the host: includes the host's time."""
    gpu_us: float
    """Median after other work during which the host queued the call: the device's time alone."""
    as_called_quartiles_us: tuple[float, float]
    gpu_quartiles_us: tuple[float, float]
    late_runs: int
    """Number of runs in which the device was done with the other work before the host had queued
    the call, so that `gpu_us` has some of the host's time."""

    @classmethod
    def of(cls, as_called: Sequence[float], gpu: Sequence[float], late: Sequence[bool]) -> Times:
        """Returns the medians and quartiles of these runs."""
        return cls(
            as_called_us=statistics.median(as_called),
            gpu_us=statistics.median(gpu),
            as_called_quartiles_us=_quartiles(as_called),
            gpu_quartiles_us=_quartiles(gpu),
            late_runs=sum(late),
        )


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) == 1:
        return values[0], values[0]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


@dataclass(frozen=True)
class Errors:
    """How far the results of a forward are from those of the recurrence in float32: the norm of the
    difference, relative to the norm of the right result."""

    o: float
    final_state: float


@dataclass(frozen=True)
class Figures:
    """The times and errors of one forward on one batch."""

    times: Times
    errors: Errors
    packages: Sequence[str]
    """Packages that the call entered, which show whose kernels it launched."""


@dataclass
class Comparison:
    """Results of comparing our forward, with the tables of the step and without, with the peers
    that are installed."""

    accelerator: str
    shape: Mapping[str, int | str]
    runs: int
    seed: int
    """The seed that drew the batches named "drawn"."""
    peers: Mapping[str, Mapping[str, str]]
    """Versions of each peer that is used, and of what compiles its kernels, by the peer's name."""
    rows: dict[GatedBatch, Mapping[str, Figures]] = field(default_factory=dict)
    """Figures by batch, then by the forward's name, for the batches that are done."""
    errors: dict[str, Mapping[str, Errors]] = field(default_factory=dict)
    """Errors on short sequences by where queries and keys are normalised, "in the kernel" or
    "before", then by the forward's name."""
    planning_us: dict[int, float] = field(default_factory=dict)
    """Microseconds that the host takes to plan the tables, by the number of sequences."""
    sentences: Sequence[str] = ()
    """Sentences said during the run: which peers and rows are left out, and why."""


def ratio(forwards: Mapping[str, Figures], peer: str, way: str, name: str = OURS) -> float | None:
    """Returns how many times as long the peer takes as the forward `name` on one batch, or None if
    the peer was left out; `way` is a field of Times."""
    if peer not in forwards:
        return None
    theirs, ours = (getattr(forwards[each].times, way) for each in (peer, name))
    return float(theirs / ours)


def mean_ratio(comparison: Comparison, peer: str, way: str, name: str = OURS) -> float | None:
    """Returns the geometric mean of `ratio` over the rows that have the peer; None without one."""
    found = [ratio(forwards, peer, way, name) for forwards in comparison.rows.values()]
    ratios = [each for each in found if each is not None]
    return statistics.geometric_mean(ratios) if ratios else None


def mean_ratios(comparison: Comparison) -> dict[str, dict[str, dict[str, float | None]]]:
    """Returns the means by peer, then by field of Times, then by the forward that the peer is
    compared with."""
    return {
        peer: {
            way: {name: mean_ratio(comparison, peer, way, name) for name in (OURS, NO_TABLES)}
            for way in WAYS
        }
        for peer in comparison.peers
    }


def tables_of(comparison: Comparison) -> Iterator[Table]:
    for way, words in WAYS.items():
        yield _times_table(comparison, way, words)
    yield _errors_table(comparison)


def _times_table(comparison: Comparison, way: str, words: str) -> Table:
    title = f"Forward, µs {words}\n{comparison.accelerator}"
    for versions_of in comparison.peers.values():
        title += "\n" + ", ".join(f"{name} {version}" for name, version in versions_of.items())
    table = Table(title=title, box=SIMPLE, pad_edge=False)
    for column in ("sequences", "gate"):
        table.add_column(column, no_wrap=True)
    table.add_column("ours", justify="right", no_wrap=True)
    table.add_column("no\ntables", justify="right", no_wrap=True)
    for peer in comparison.peers:
        table.add_column(peer.replace("-", "\n"), justify="right", no_wrap=True)
        table.add_column("ratio", justify="right", no_wrap=True)
    for batch, forwards in comparison.rows.items():
        cells = [_cell(forwards, name, way) for name in (OURS, NO_TABLES)]
        for peer in comparison.peers:
            cells += [_cell(forwards, peer, way), _rounded(ratio(forwards, peer, way))]
        table.add_row(batch.sequences, batch.gate, *cells)
    if comparison.peers:
        means = [_rounded(mean_ratio(comparison, peer, way)) for peer in comparison.peers]
        table.add_row(
            "geometric mean", "", "", "", *(cell for mean in means for cell in ("", mean))
        )
    return table


def _cell(forwards: Mapping[str, Figures], name: str, way: str) -> str:
    return f"{getattr(forwards[name].times, way):.0f}" if name in forwards else ""


def _rounded(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def _errors_table(comparison: Comparison) -> Table:
    table = Table(title="Relative errors against the recurrence in float32", box=SIMPLE)
    for column in ("normalised", "forward", "o", "final state"):
        table.add_column(column, no_wrap=True)
    for normalized, forwards in comparison.errors.items():
        for name, errors in forwards.items():
            table.add_row(normalized, name, f"{errors.o:.1e}", f"{errors.final_state:.1e}")
    return table


def write_record(folder: Path, comparison: Comparison) -> Path:
    """Writes the comparison to `folder`/gdn_forward.json and returns the file's path. The file is
    replaced as a whole, so it can be written after each row."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "gdn_forward.json"
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(record_of(comparison), indent=2) + "\n")
    unfinished.replace(path)
    return path


def record_of(comparison: Comparison) -> dict[str, object]:
    """Returns the comparison as JSON's types, to be written."""
    unused: dict[str, str | None] = {peer.name: None for peer in PEERS}
    return {
        "benchmark": "gdn_forward",
        "accelerator": comparison.accelerator,
        "date": today(),
        "versions": versions()
        | unused
        | {name: found for peer in comparison.peers.values() for name, found in peer.items()},
        "shape": dict(comparison.shape),
        "runs": comparison.runs,
        "seed": comparison.seed,
        "cases": [
            {
                "sequences": batch.sequences,
                "lengths": list(batch.lengths),
                "gate": batch.gate,
                "normalized": "in the kernel",
                "with_states": True,
                "forwards": {name: _flat(figures) for name, figures in forwards.items()},
            }
            for batch, forwards in comparison.rows.items()
        ],
        "geometric_means_of_ratios": mean_ratios(comparison),
        "relative_errors": {
            normalized: {name: asdict(errors) for name, errors in forwards.items()}
            for normalized, forwards in comparison.errors.items()
        },
        "planning_us": {str(number): took for number, took in comparison.planning_us.items()},
        "sentences": list(comparison.sentences),
    }


def _flat(figures: Figures) -> dict[str, Any]:
    return asdict(figures.times) | {
        "relative_errors": asdict(figures.errors),
        "packages": list(figures.packages),
    }
