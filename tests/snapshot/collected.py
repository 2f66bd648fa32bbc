"""The existing tests, and the current names of tests that have moved."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping

from .paths import FOLDER, ROOT

Tests = Mapping[str, Mapping[str, list[str]]]
"""The tests by file and function: {file: {function: its parametrisations}}; an empty list for a
function without any."""


def collected() -> Tests:
    """Returns the tests that pytest collects in tests/ and katas/, without this folder's. Raises
    RuntimeError if pytest can't collect them."""
    options = ("--collect-only", "-q", "--deep", "--device=sim", "-pno:cacheprovider", "-pno:nbval")
    command = (sys.executable, "-m", "pytest", *options, f"--ignore={FOLDER}", "tests", "katas")
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode:
        _, _, errors = result.stdout.rpartition("= ERRORS =")
        raise RuntimeError(f"pytest can't collect the tests:\n{errors or result.stderr}")
    return by_function(line for line in result.stdout.splitlines() if "::" in line)


def by_function(ids: Iterable[str]) -> Tests:
    found: dict[str, dict[str, list[str]]] = {}
    for test_id in sorted(ids):
        file, _, test = test_id.partition("::")
        function, bracket, parameters = test.partition("[")
        given = found.setdefault(file, {}).setdefault(function, [])
        if bracket:
            given.append(parameters.removesuffix("]"))
    return found


def ids_of(file: str, tests: Mapping[str, list[str]]) -> list[list[str]]:
    """Returns the full ids of a file's tests, a list for each function."""
    names = {function: f"{file}::{function}" for function in tests}
    return [
        [f"{names[function]}[{given}]" for given in parametrisations] or [names[function]]
        for function, parametrisations in tests.items()
    ]


def renames() -> dict[str, str]:
    """Returns {old name: new name} from renames.toml. A name is a test, one parametrisation of a
    test, a file, or a folder that ends with `/`."""
    return tomllib.loads((FOLDER / "renames.toml").read_text(encoding="utf-8"))


def renamed(test_id: str, table: Mapping[str, str]) -> str:
    """Returns the current id of a test whose old id is `test_id`: the longest old name in `table`
    that the id begins with is replaced."""
    for old in sorted(table, key=len, reverse=True):
        rest = test_id.removeprefix(old)
        if test_id.startswith(old) and (not rest or old.endswith("/") or rest[0] in ":["):
            return table[old] + rest
    return test_id


def vanished(was: Tests, now: Tests, table: Mapping[str, str]) -> Iterator[str]:
    """Yields a sentence for each file all of whose tests vanished, and for each other function that
    lost tests. Renamed tests, by `table`, haven't vanished."""
    there = {
        test_id for file, tests in now.items() for ids in ids_of(file, tests) for test_id in ids
    }
    for file, tests in was.items():
        had = ids_of(file, tests)
        gone = [[test_id for test_id in ids if renamed(test_id, table) not in there] for ids in had]
        if gone == had:
            yield f"{file} vanished, and with it {sum(map(len, had))} tests"
            continue
        for first, *others in filter(None, gone):
            yield f"{first} vanished" + (f", and {len(others)} more of it" if others else "")
