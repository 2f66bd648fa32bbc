"""A quick run of a benchmark, and tests of every benchmark's output, which the benchmark's own
tests import. Their fixture `run` returns (folder, printed text)."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path


def quick(main: Callable[[list[str]], object], folder: Path, *options: str) -> tuple[Path, str]:
    """Calls a benchmark's `main` with --quick, and returns (folder of its files, printed text)."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        main(["--quick", "--output", str(folder), *options])
    return folder, printed.getvalue()


def with_timelines(main: Callable[[list[str]], object], folder: Path) -> tuple[Path, str]:
    """Calls a benchmark as `quick` does, and stores its recordings in `folder`/timelines."""
    return quick(main, folder, "--timelines", str(folder / "timelines"))


def test_the_table_stays_within_a_terminal(run):
    printed = run[1]
    widest = max(printed.splitlines(), key=len)
    assert len(widest) <= 80, widest
    assert "…" not in printed, printed
