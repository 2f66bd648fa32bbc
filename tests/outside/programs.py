"""Fetches other people's programs, which `manifest.toml` names, into build/outside/, and runs
them."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
FETCHED = ROOT / "build/outside"
"""The folder of fetched programs, which git ignores: none of them is committed."""


@dataclass(frozen=True)
class Program:
    """One entry of the manifest, which explains the fields."""

    name: str
    source: str
    commit: str
    licence: str
    run: list[str]
    waits: list[str]
    folder: str = "."
    write: dict[str, str] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    script: str | None = None
    needs: list[str] = field(default_factory=list)
    torchrun: bool = False

    @property
    def place(self) -> Path:
        part = "" if self.folder == "." else "-" + self.folder.replace("/", "+")
        return FETCHED / self.source.replace("/", "+") / (self.commit[:12] + part)

    @property
    def is_fetched(self) -> bool:
        return (self.place / self.folder / ("" if self.script else self.run[0])).exists()

    @property
    def missing(self) -> list[str]:
        """Returns the packages that the program needs and that are not installed here."""
        return [name for name in self.needs if find_spec(name) is None]


def programs() -> list[Program]:
    manifest = tomllib.loads((Path(__file__).parent / "manifest.toml").read_text("utf-8"))
    return [
        Program(name=name, source=entry.pop("from"), **entry) for name, entry in manifest.items()
    ]


def fetch(program: Program, mirror: Path | None = None) -> None:
    """Puts a program's commit into its place: from GitHub, or from a clone (bare or not) at
    `mirror/OWNER+NAME`, `mirror/OWNER+NAME/repo` or `mirror/OWNER/NAME`, which may lack large
    files. Raises CalledProcessError if git fails, and leaves nothing half done."""
    if program.is_fetched:
        return
    unfinished = program.place.with_name(program.place.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    if mirror is None:
        git(unfinished, "init", "-q")
        url = f"https://github.com/{program.source}"
        git(unfinished, "fetch", "-q", "--depth=1", url, program.commit)
        git(unfinished, "checkout", "-q", "FETCH_HEAD")
    else:
        copy_files(clone_of(program.source, mirror), program, unfinished)
    shutil.rmtree(program.place, ignore_errors=True)
    unfinished.rename(program.place)


def git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, timeout=600, stdout=subprocess.PIPE).stdout


def copy_files(clone: Path, program: Program, target: Path) -> None:
    """Copies the files of the program's folder, but for those whose content the clone lacks."""
    listed = git(clone, "ls-tree", "-r", "-z", "--name-only", program.commit, program.folder)
    for name in filter(None, listed.decode().split("\0")):
        show = ["git", "-C", str(clone), "show", f"{program.commit}:{name}"]
        content = subprocess.run(show, capture_output=True, check=False)
        if content.returncode == 0:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(content.stdout)


def clone_of(source: str, mirror: Path) -> Path:
    joined = source.replace("/", "+")
    places = (mirror / joined / "repo", mirror / joined, mirror / source)
    found = next((place for place in places if place.exists()), None)
    if found is None:
        sys.exit(f"{mirror} has no clone of {source}: it would be {places[1]}")
    return found


@dataclass(frozen=True)
class Run:
    """The result of one run under `debubble syncs --as-cuda`."""

    exit_code: int
    printed: str
    findings: list[dict]
    seconds: float


def run(program: Program, report: Path) -> Run:
    """Runs a fetched program unchanged, and writes the findings to `report` as JSON."""
    folder = program.place / program.folder
    for name, made_of in program.write.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(made(made_of))
    path = [str(ROOT), *(str(program.place / each) for each in program.path)]
    path += filter(None, [os.environ.get("PYTHONPATH")])
    command = ["-m", "debubble", "syncs", "--as-cuda", "--json", str(report), "--"]
    command += [str(Path(__file__).parent / program.script)] if program.script else []
    command += program.run
    if program.torchrun:
        command = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=1", *command]
    start = time.perf_counter()
    finished = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    seconds = round(time.perf_counter() - start, 1)
    findings = json.loads(report.read_text())["findings"] if report.exists() else []
    return Run(finished.returncode, finished.stdout, findings, seconds)


def made(made_of: str) -> bytes:
    """Returns data from a seed: "uint16 N below M" as numbers, "words N below M" as a text."""
    kind, count, _, below = made_of.split()
    numbers = [random.Random(made_of).randrange(int(below)) for _ in range(int(count))]
    if kind == "uint16":
        return struct.pack(f"<{len(numbers)}H", *numbers)
    return " ".join(f"word{number}" for number in numbers).encode()
