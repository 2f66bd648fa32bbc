"""An environment with only the wheel and its requirements."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
OURS = ("DEBUBBLE_", "PYTEST", "PYTHON", "TRITON_")
"""Prefixes of environment variables that would change what the installed package does; its
processes don't inherit them."""


class Installed:
    """A virtual environment with a wheel of this project, built from a source distribution in
    `folder`, and what it requires with `extra` ("" is the base install, which has no torch). Its
    Python runs in an empty folder `work`."""

    def __init__(self, folder: Path, extra: str = "torch") -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.source = _source_distribution(folder)
        self.wheel = _wheel(self.source, folder)
        venv.create(folder / "venv", symlinks=True, with_pip=False)
        self.python = folder / "venv" / "bin" / "python"
        paths = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
        self.packages = Path(sysconfig.get_path("purelib", "venv", vars=paths))
        with zipfile.ZipFile(self.wheel) as archive:
            archive.extractall(self.packages)
        metadata = next(self.packages.glob("debubble-*.dist-info"))
        self.needs = dict(_needs(Distribution.at(metadata), extra=extra))
        for needed in self.needs.values():
            self._link(needed)

    def add(self, name: str) -> None:
        """Adds a package from the tests' own environment, with its requirements, to this one."""
        found = distribution(name)
        for needed in (found, *dict(_needs(found)).values()):
            self._link(needed)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        outside = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
        return subprocess.run(
            [self.python, *arguments],
            cwd=self.work,
            env=outside | {"COLUMNS": "200"} | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def _link(self, needed: Distribution) -> None:
        for name in {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}:
            there = self.packages / name
            if not there.exists():
                there.symlink_to(needed.locate_file(name))


def _source_distribution(folder: Path) -> Path:
    """Builds and unpacks the source distribution. Writes nothing into the checkout."""
    _setup(ROOT, "egg_info", "--egg-base", str(folder), "sdist", "--dist-dir", str(folder))
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(path.parent for path in folder.glob("debubble-*/setup.py"))


def _wheel(source: Path, folder: Path) -> Path:
    _setup(source, "bdist_wheel", "--dist-dir", str(folder))
    return next(folder.glob("*.whl"))


def _setup(source: Path, *arguments: str) -> None:
    command = [sys.executable, "setup.py", "-q", *arguments]
    built = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-2000:]


def _needs(
    of: Distribution, known: frozenset[str] = frozenset(), extra: str = ""
) -> Iterator[tuple[str, Distribution]]:
    """Yields (name, distribution) of what a distribution requires with this extra, and of what
    these require in turn."""
    for line in of.requires or ():
        asked = Requirement(line)
        name = re.sub(r"[-_.]+", "-", asked.name).lower()
        if name in known or (asked.marker and not asked.marker.evaluate({"extra": extra})):
            continue
        known |= {name}
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # An image may lack packages that its torch doesn't need.
        yield name, found
        for deeper, package in _needs(found, known):
            known |= {deeper}
            yield deeper, package
