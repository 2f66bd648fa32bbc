"""Measures the cases of all groups, and keeps the rows in the table of a GPU."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch

from debubble.clock.kernel_table import OfKind
from debubble.clock.shaped import Configuration

from . import along, networks, pointwise
from .draw import Draw, Run
from .marked import Call, calls_of

SEED = 20261128
AT_ONCE = 120
"""The number of cases in one profile."""
CALLS = 3
"""Each case is called so often in a row. The first call finds the caches cold."""
COLD = 0.2
"""The share of the first call in the time that is kept: most operands of a program's call were just
written, and some were not."""


class Row(NamedTuple):
    """A measured call: the microseconds of its work on the device, and the number of its kernels,
    copies and memsets."""

    configuration: Configuration
    microseconds: float
    works: int


def measure(device: torch.device, share: float = 1.0) -> Iterator[list[Row]]:
    """Yields the measured rows, a list for each profile. `share` is the part of the sizes that is
    measured."""
    for runs in _in_parts(_runs(Draw(device, SEED), share)):
        for run in runs:
            run()  # Libraries choose and load their kernels.
        repeated = calls_of(run for run in runs for _ in range(CALLS))
        yield [
            row
            for start in range(0, len(repeated), CALLS)
            for row in _rows(*repeated[start : start + CALLS])
        ]
        torch.cuda.empty_cache()


def _runs(draw: Draw, share: float) -> Iterator[Run]:
    for group in (pointwise, along, networks):
        for case in group.cases():
            for _ in range(math.ceil(case.repeats * share)):
                yield case.make(draw)


def _in_parts(runs: Iterator[Run]) -> Iterator[list[Run]]:
    while part := list(islice(runs, AT_ONCE)):
        yield part


def _rows(cold: list[Call], *hot: list[Call]) -> Iterator[Row]:
    """Yields the row of each call of a case. A case whose rounds differ in their calls has none."""
    if any([call.name for call in calls] != [call.name for call in cold] for calls in hot):
        return
    for first, *others in zip(cold, *hot, strict=True):
        usual = statistics.median(call.microseconds for call in others)
        if first.configuration is not None and usual > 0:
            added = max(0.0, first.microseconds - usual)
            yield Row(first.configuration, round(usual + COLD * added, 2), len(first.work))


def memory_bandwidth(device: torch.device) -> float:
    """Returns the bytes a microsecond that a kernel reads and writes of memory that is in no
    cache."""
    words = torch.zeros(1 << 27, device=device)
    calls = calls_of([lambda: words.add_(1)] * 5)
    return round(2 * words.nbytes / statistics.median(call.microseconds for (call,) in calls))


def merged(kinds: dict[str, OfKind], rows: Iterable[Row]) -> dict[str, OfKind]:
    """Returns `kinds` with these rows. A row replaces a row of the same kind and sizes."""
    by_sizes = {
        exact: {tuple(row[:-1]): row for row in of_kind["measured"]}
        for exact, of_kind in kinds.items()
    }
    about = {exact: (of_kind["general"], of_kind["weights"]) for exact, of_kind in kinds.items()}
    for configuration, us, _ in rows:
        exact, *general = configuration.kinds
        about.setdefault(exact, (general, list(configuration.weights)))
        by_sizes.setdefault(exact, {})[configuration.sizes] = [*configuration.sizes, us]
    return {
        exact: OfKind(
            general=about[exact][0], weights=about[exact][1], measured=sorted(found.values())
        )
        for exact, found in sorted(by_sizes.items())
    }


def write(path: Path, gpu: str, memory_bandwidth: float, rows: Iterable[Row]) -> int:
    """Adds rows to the table of `gpu` at `path`, or makes one, and returns its number of rows.
    `memory_bandwidth` is in bytes a microsecond."""
    known = json.loads(path.read_text())["kinds"] if path.exists() else {}
    kinds = merged(known, rows)
    about = {
        "gpu": gpu,
        "torch": torch.__version__,
        "measured": f"{datetime.now(UTC):%Y-%m-%d}",
        "memory_bandwidth": memory_bandwidth,
    }
    lines = (
        f"  {json.dumps(kind)}: {json.dumps(of_kind, separators=(',', ':'))}"
        for kind, of_kind in kinds.items()
    )
    head = json.dumps(about, indent=1).removesuffix("\n}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + ',\n "kinds": {\n' + ",\n".join(lines) + "\n }\n}\n")
    return sum(len(of_kind["measured"]) for of_kind in kinds.values())
