"""Makes a checkout part of an environment: its modules, its commands, and its metadata.

An editable install does the same, but this builds nothing and writes nothing into the checkout,
which may be another user's or read-only.
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

from places import line_of_pth, packages_of, shebang

LINK = "debubble-checkout.pth"
COMMAND = """# -*- coding: utf-8 -*-
import sys

from {module} import {name}

if __name__ == "__main__":
    sys.exit({name}())
"""


def link(root: Path, front: Path) -> None:
    """Makes the checkout in `root` part of the environment `front`, unless it is already: writes
    its path, commands and metadata there."""
    packages = packages_of(front)
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = _files(root, front, packages, project)
    if all(_holds(path, text) for path, text in wanted.items()):
        return
    for old in (*packages.glob("debubble-*.dist-info"), *packages.glob("__editable__*debubble*")):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        if path.parent == front / "bin":
            path.chmod(0o755)


def _files(root: Path, front: Path, packages: Path, project: dict) -> dict[Path, bytes]:
    name, version = project["name"], project["version"]
    info = packages / f"{name}-{version}.dist-info"
    files = {packages / LINK: line_of_pth(root)}
    for command, target in project["scripts"].items():
        module, _, function = target.partition(":")
        text = COMMAND.format(module=module, name=function).encode()
        files[front / "bin" / command] = shebang(front / "bin" / "python") + text
    files[info / "METADATA"] = _metadata(project).encode()
    files[info / "INSTALLER"] = b"debubble's make\n"
    groups = {"console_scripts": project["scripts"], **project.get("entry-points", {})}
    files[info / "entry_points.txt"] = "".join(
        f"[{group}]\n" + "".join(f"{one} = {target}\n" for one, target in entries.items())
        for group, entries in groups.items()
    ).encode()
    listed = [*files, info / "RECORD"]
    lines = [_relative(path, packages, front) + ",,\n" for path in listed]
    files[info / "RECORD"] = "".join(lines).encode()
    return files


def _metadata(project: dict) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {needed}" for needed in project["dependencies"]),
    ]
    return "\n".join(lines) + "\n"


def _relative(path: Path, packages: Path, front: Path) -> str:
    if path.is_relative_to(packages):
        return path.relative_to(packages).as_posix()
    up = len(packages.relative_to(front).parts)
    return "/".join([".."] * up + list(path.relative_to(front).parts))


def _holds(path: Path, text: bytes) -> bool:
    try:
        return path.read_bytes() == text
    except OSError:
        return False
