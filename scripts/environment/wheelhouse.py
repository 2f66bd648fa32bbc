"""`make wheelhouse`: downloads everything that `make lab WHEELS=folder` needs, for hosts without
network."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import places
from failure import Failure
from installer import UV, bring_uv, reaches
from requirements import CPU_INDEX, Torch, beside_cpu_torch, pins, torch_version


def fill(root: Path, torch: Torch, extra: str) -> None:
    """Downloads the wheels for this Python and this kind of machine: the host without network must
    be alike."""
    folder = (root / Path(os.environ.get("WHEELS") or "wheels").expanduser()).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tools = places.cache() / "uv"
    if not (tools / "bin" / "pip").exists() and not bring_uv(tools):
        raise Failure("pip can't be installed here, and pip downloads the wheels")
    pip = [
        tools / "bin/python",
        "-m",
        "pip",
        "download",
        "--disable-pip-version-check",
        "-d",
        folder,
    ]
    print(
        f"Filling {folder} for Python {sys.version_info.major}.{sys.version_info.minor}.",
        flush=True,
    )
    wanted = pins(root, extra)
    _run([*pip, "--require-hashes", "-r", UV])
    if torch.kind == "cpu":
        only = ["--index-url", CPU_INDEX] if reaches(CPU_INDEX) else []
        _run([*pip, "--no-deps", *only, f"torch=={torch_version(root)}"])
        wanted = beside_cpu_torch(wanted)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(pin.text for pin in wanted))
        file.flush()
        _run([*pip, "--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", file.name])
    megabytes = sum(wheel.stat().st_size for wheel in folder.glob("*.whl")) / 1e6
    print(
        f"{folder} has {megabytes:.0f} MB. On the other host: make lab WHEELS={folder}", flush=True
    )


def _run(command: list) -> None:
    if subprocess.run([str(word) for word in command], check=False).returncode:
        raise Failure("the wheelhouse is not whole: pip says above what it could not get")
