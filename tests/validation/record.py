"""What a validation leaves behind: a machine, a state of the source, and what passed there."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

SOURCES = ("debubble", "solutions", "katas", "chapters")


def machine(device: str) -> dict[str, str | int | None]:
    """The accelerator and the versions that a result depends on."""
    on_gpu = device == "cuda"
    return {
        "gpu": torch.cuda.get_device_name() if on_gpu else "sim",
        "gpus": torch.cuda.device_count() if on_gpu else 1,
        "driver": driver_version() if on_gpu else None,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": installed("triton"),
        "numpy": installed("numpy"),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def source_hash(root: Path) -> str:
    """SHA-256 over the names and contents of all that is validated, which the tests that do so are
    no part of; caches don't count, and of a notebook only what is run."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for file in sorted((root / folder).rglob("*")):
            parts = file.relative_to(root).parts
            if file.is_file() and not any(p.startswith((".", "__pycache__")) for p in parts):
                source = source_of(file)
                digest.update(f"{file.relative_to(root).as_posix()}\0{len(source)}\0".encode())
                digest.update(source)
    return digest.hexdigest()


def source_of(file: Path) -> bytes:
    if file.suffix != ".ipynb":
        return file.read_bytes()
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return json.dumps([(cell["cell_type"], "".join(cell["source"])) for cell in cells]).encode()


def new_record(device: str, root: Path) -> dict[str, object]:
    return {
        **machine(device),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "source_sha256": source_hash(root),
        "finished": False,
        "parts": [],
    }


def earlier_parts(record: dict[str, object], path: Path) -> list[dict[str, object]]:
    """What ran before on this very machine and source, so that parts can run one at a time."""
    if not path.exists():
        return []
    earlier = json.loads(path.read_text())
    may_differ = ("date", "finished", "parts")
    same = all(earlier.get(key) == record[key] for key in record if key not in may_differ)
    return earlier["parts"] if same else []


def write(record: dict[str, object], path: Path) -> None:
    """In one step: a reader finds the old record or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".json.part")
    unfinished.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    os.replace(unfinished, path)


def driver_version() -> str | None:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
