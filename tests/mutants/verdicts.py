"""Compares passing mutants with `survivors.toml`, in which each has its reason."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .judging import Verdict, judge
from .making import mutants

REASONS = Path(__file__).with_name("survivors.toml")
"""The file of reasons, by file, line and edit. `equivalent` mutants behave the same in all that the
system allows, `may_pass` ones behave differently, and `other_device` ones are in code that only a
GPU runs. For `seen_elsewhere` ones the reason names the slower test that fails."""
ONE_IN = 48
MOST_SURVIVE = 0.03
"""The largest share of survivors among mutants that behave differently and run on sim."""
LEFT_OUT = (
    "bench", "picture", "peer", "modelled_time", "comparison", "counts_of_the_h200", "checkpoints",
    "combinations", "any_schedule", "interrupted", "memory_stays", "dashboard",
)  # fmt: skip
"""Parts of the names of left-out test files: drawings, measurements, loading, and searches."""

NAMES = ("pinned_h2d", "sync_free", "gdn", "flex_graph", "offload", "engine", "common")
OF_COMMON = ("pinned_h2d", "sync_free", "flex_graph", "wrong_arguments")
"""Folders whose tests judge the code that several systems share."""


def judges_of(name: str, root: Path) -> list[str]:
    """Returns the files of quick tests that judge a system."""
    folders = OF_COMMON if name == "common" else (name,)
    paths = (path for folder in folders for path in (root / "tests" / folder).rglob("test_*.py"))
    files = sorted(path.relative_to(root).as_posix() for path in paths)
    return [file for file in files if not any(part in file for part in LEFT_OUT)]


class Outcome(NamedTuple):
    verdicts: list[Verdict]
    unexplained: list[str]
    """The mutants that pass without a reason."""
    stale: list[str]
    """The reasons for mutants that don't exist, or that fail."""


def outcome(root: Path, files: Sequence[str], tests: Sequence[str], one_in: int) -> Outcome:
    """Returns the outcome of one in `one_in` mutants of these files, by these tests."""
    tried = mutants(root, files, one_in)
    verdicts = judge(root, tried, tests)
    reasons = {key for key, _ in read_reasons() if key[0] in {*files}}
    passing = {it.mutant.key: it.mutant for it in verdicts if not it.failed}
    unexplained = [
        f"{it.file}:{it.line}: `{it.code}`: {it.edit}"
        for key, it in passing.items() if key not in reasons
    ]  # fmt: skip
    stale = [" ".join(key) for key in reasons & {it.key for it in tried} if key not in passing]
    known = {it.key for it in mutants(root, files, 1)} if reasons else set()
    return Outcome(verdicts, unexplained, stale + [" ".join(key) for key in reasons - known])


def read_reasons() -> list[tuple[tuple[str, str, str], str]]:
    """Returns ((file, line, edit), table) of each mutant with a reason."""
    tables = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    found = []
    for table in ("equivalent", "may_pass", "other_device", "seen_elsewhere"):
        for entry in tables.get(table, []):
            if {*entry} != {"file", "line", "edit", "reason"} or not entry["reason"]:
                raise ValueError(f"{REASONS.name} needs file, line, edit, reason: not {entry}")
            found.append(((entry["file"], entry["line"], entry["edit"]), table))
    return found
