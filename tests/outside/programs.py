"""Fetches other people's programs, which `manifest.toml` names, into build/outside/, and runs
them."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
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
    races: list[str] = field(default_factory=list)
    folder: str = "."
    inputs: str | None = None
    path: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    script: str | None = None
    needs: list[str] = field(default_factory=list)
    torchrun: bool = False
    on_cpu: dict[str, str] | bool = field(default_factory=dict)

    @property
    def place(self) -> Path:
        return FETCHED / self.source.replace("/", "+") / self.commit[:12]

    @property
    def is_package(self) -> bool:
        return self.source == "PyPI"

    @property
    def is_fetched(self) -> bool:
        return self.is_package or (self.place / self.folder).exists()

    @property
    def missing(self) -> list[str]:
        """Returns the packages that the program needs and that are not installed here."""
        return [name for name in self.needs if find_spec(name) is None]


def programs() -> list[Program]:
    manifest = tomllib.loads((HERE / "manifest.toml").read_text("utf-8"))
    shared = manifest.pop("from")
    return [
        Program(name=name, **(shared[entry.pop("from")] | entry))
        for name, entry in manifest.items()
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
    part = "." if mirror is None else program.folder
    shutil.rmtree(program.place / part, ignore_errors=True)
    (program.place / part).parent.mkdir(parents=True, exist_ok=True)
    (unfinished / part).rename(program.place / part)
    shutil.rmtree(unfinished, ignore_errors=True)


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
    """The result of one run. A run without debubble has no report.

    `seconds` are those of the processor, so that they hold on a busy machine as well."""

    exit_code: int
    printed: str
    seconds: float
    report: dict = field(default_factory=lambda: {"findings": [], "races": []})

    def differs(self, program: Program) -> list[str]:
        """Returns the waits of the manifest that no finding names, and the races that only one of
        the manifest and the report has."""
        named = {
            line["code"]
            for found in self.report["findings"]
            for line in (found, *(found["inside"] or ()))
        }
        races = {race["first"]["code"] for race in self.report["races"]}
        return [line for line in program.waits if line not in named] + [*races ^ {*program.races}]


def prepare(program: Program) -> None:
    """Makes the files that a fetched program would download."""
    (program.place / program.folder).mkdir(parents=True, exist_ok=True)
    if program.inputs:
        command = [sys.executable, str(HERE / "inputs.py"), program.inputs]
        start(program, command).check_returncode()


def start(program: Program, command: list[str], **variables: str) -> CompletedProcess[str]:
    """Runs a command in the program's folder, on one core, for at most 600 seconds."""
    path = [str(ROOT), *(str(program.place / each) for each in program.path)]
    path += filter(None, [os.environ.get("PYTHONPATH")])
    variables |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path)}
    return subprocess.run(
        ["timeout", "600", *command],
        cwd=program.place / program.folder,
        env=os.environ | variables | program.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def run(
    program: Program, report: Path | None, timeline: Path | None = None, as_cuda: bool = True
) -> Run:
    """Runs a prepared program unchanged: under `debubble syncs`, which writes its report to
    `report` as JSON and its timeline to `timeline`, or without debubble on the CPU for no report.
    Without `as_cuda` it runs on this machine's GPU."""
    command = [str(HERE / program.script)] if program.script else []
    command += program.run
    if report:
        options = ["--as-cuda"] if as_cuda else []
        options += ["--save", str(timeline)] if timeline else []
        command = ["-m", "debubble", "syncs", *options, "--json", str(report), *command]
    else:
        command = [dict(program.on_cpu or {}).get(part, part) for part in command]
    if program.torchrun:
        command = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=1", *command]
    before = processor_seconds()
    variables = {} if report else {"CUDA_VISIBLE_DEVICES": ""}
    finished = start(program, [sys.executable, *filter(None, command)], **variables)
    ran = Run(finished.returncode, finished.stdout, processor_seconds() - before)
    has_report = report is not None and report.exists()
    return replace(ran, report=json.loads(report.read_text())) if has_report else ran


def processor_seconds() -> float:
    """Returns the user and system seconds of all processes that this process has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
