"""Limits what one learner may take of the host, so that the others are not affected.

If the host has cgroups that root may make (version 2, or version 1 with its folders), all processes
of a learner share one limit of memory and of processes, and get the same share of the cores as each
other learner who needs them. Without cgroups, rlimits limit the memory of each process, and the
number of processes of the user.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
NAME = "debubble"
GIB = 2**30
LARGEST_FILE = 4 * GIB
OPEN_FILES = 4096
NO_NEW_PRIVILEGES = 38
"""The option of prctl that keeps a process, and the programs it starts, from gaining rights."""


@dataclass(frozen=True)
class Limits:
    memory_gb: float
    processes: int
    cores: float
    """The cores that a learner may use at once; 0 means no limit."""


class Cgroups:
    """The cgroups of the host that root may make; `kind` is "v2", "v1" or, without any, ""."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.kind = self._find()

    def make(self, name: str, limits: Limits) -> list[Path]:
        """Makes the learner's groups with their limits, and returns the files into which a process
        writes its own number to be limited; none without cgroups."""
        memory, processes = int(limits.memory_gb * GIB), limits.processes
        if self.kind == "v2":
            group = self.root / NAME / name
            group.mkdir(parents=True, exist_ok=True)
            _write(group / "memory.max", memory)
            _write(group / "memory.swap.max", 0)
            _write(group / "memory.oom.group", 0)
            _write(group / "pids.max", processes)
            if limits.cores:
                _write(group / "cpu.max", f"{int(limits.cores * 100_000)} 100000")
            return [group / "cgroup.procs"]
        if self.kind == "v1":
            groups = {kind: self.root / kind / NAME / name for kind in ("memory", "pids", "cpu")}
            for group in groups.values():
                group.mkdir(parents=True, exist_ok=True)
            _write(groups["memory"] / "memory.limit_in_bytes", memory)
            _write(groups["pids"] / "pids.max", processes)
            if limits.cores:
                _write(groups["cpu"] / "cpu.cfs_quota_us", int(limits.cores * 100_000))
            return [group / "cgroup.procs" for group in groups.values()]
        return []

    def remove(self, name: str) -> None:
        """Removes the learner's groups, once none of their processes runs, so that the next group
        counts from zero."""
        kinds = {"v2": [""], "v1": ["memory", "pids", "cpu"]}.get(self.kind, [])
        for kind in kinds:
            with contextlib.suppress(OSError):
                (self.root / kind / NAME / name).rmdir()

    def memory_of(self, name: str) -> int | None:
        """Returns the most bytes that a learner has taken so far, or None without cgroups that
        count them."""
        at = {
            "v2": self.root / NAME / name / "memory.peak",
            "v1": self.root / "memory" / NAME / name / "memory.max_usage_in_bytes",
        }.get(self.kind)
        try:
            return int(at.read_text()) if at else None
        except (OSError, ValueError):
            return None

    def _find(self) -> str:
        with contextlib.suppress(OSError):
            available = (self.root / "cgroup.controllers").read_text().split()
            if {"memory", "pids", "cpu"} <= set(available):
                (self.root / NAME).mkdir(exist_ok=True)
                for folder in (self.root, self.root / NAME):
                    (folder / "cgroup.subtree_control").write_text("+memory +pids +cpu")
                return "v2"
        with contextlib.suppress(OSError):
            for kind in ("memory", "pids", "cpu"):
                if not (self.root / kind / "cgroup.procs").exists():
                    return ""
                (self.root / kind / NAME).mkdir(exist_ok=True)
            return "v1"
        return ""


def become(uid: int, gid: int, limits: Limits, groups: list[Path]) -> Callable[[], None]:
    """Returns a function that a new process calls before it runs the learner's programs: it joins
    the learner's limits, and then gives up all rights of root."""
    library = ctypes.CDLL(None)

    def become_the_learner() -> None:
        for group in groups:
            _write(group, os.getpid())
        for kind, most in _rlimits(limits, counted=bool(groups)).items():
            _, hard = resource.getrlimit(kind)
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (least, least))
        os.umask(0o077)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        library.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)

    return become_the_learner


def _rlimits(limits: Limits, *, counted: bool) -> dict[int, int]:
    found = {
        resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_FSIZE: LARGEST_FILE,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }
    if not counted:
        found[resource.RLIMIT_DATA] = int(limits.memory_gb * GIB)
    return found


def _write(path: Path, value: object) -> None:
    """Writes a limit to a file of a cgroup. A limit that this kernel does not know, so that its
    file is missing, is left out."""
    with contextlib.suppress(FileNotFoundError):
        path.write_text(f"{value}")
