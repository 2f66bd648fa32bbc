"""A validation's record: dated evidence from one kind of GPU, part by part.

A part keeps its result until it runs again. The result says when it ran, on which card and commit,
with which versions, and how long that host takes for a launch.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from debubble.contract.packages.installed import installed

Result = dict[str, Any]
"""The result of a part, as an entry of the record."""
Record = dict[str, Any]
UNKNOWN_SECONDS = 60.0
"""The estimate in seconds for a part that never ran on any GPU."""


def device_of(device: str) -> dict[str, str | int]:
    """Returns the name and the number of this machine's GPUs ("sim" and 1 if `device` is sim), for
    the head of the record."""
    import torch

    on_gpu = device == "cuda"
    return {
        "gpu": torch.cuda.get_device_name() if on_gpu else "sim",
        "gpus": torch.cuda.device_count() if on_gpu else 1,
    }


def circumstances(device: str, commit: str | None, root: Path) -> Result:
    """Returns the entries that are the same for all results of one run: commit, time of a launch,
    and versions."""
    return {
        "commit": commit or commit_of(root),
        "launch_us": launch_us() if device == "cuda" else None,
        "versions": versions(device),
    }


def commit_of(root: Path) -> str | None:
    """Returns the checked-out commit, with "+" if files differ from it; None outside of git."""
    git = ("git", "-C", str(root))
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
        changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True)
    except OSError:
        return None
    if head.returncode:
        return None
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def launch_us() -> float:
    """Returns the host's time for one small operator on CUDA, in microseconds: a median of 20
    rounds of 100 launches. Hosts differ by more than a factor of two."""
    import torch

    values = torch.zeros(1, device="cuda")
    rounds = []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(100):
            values.add_(1)
        rounds.append((time.perf_counter() - start) * 1e6 / 100)
    torch.cuda.synchronize()
    return round(median(rounds), 2)


def versions(device: str) -> dict[str, str | None]:
    """Returns the versions of driver, CUDA, Python, packages and platform, on which a result
    depends."""
    import torch

    return {
        "driver": driver_version() if device == "cuda" else None,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": installed("triton"),
        "numpy": installed("numpy"),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def read(path: Path) -> Record:
    """Returns the record in the file; an empty one if there is no file or if its format is not
    ours."""
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return record if isinstance(record.get("parts"), dict) else {}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def has_result(result: Result | None) -> bool:
    """True if the part ran to its end at least once."""
    return bool(result) and result["status"] in ("passed", "failed")


def age_order(result: Result | None) -> tuple[int, str]:
    """Returns a key that sorts results: parts without a result first, then from the oldest result
    to the newest."""
    return (1, result["date"]) if has_result(result) else (0, "")


def seconds_of(result: Result | None) -> float:
    """Estimates how many seconds a part takes. A part that was cut counts as half as long again as
    it ran."""
    if not result:
        return UNKNOWN_SECONDS
    return max(result.get("seconds", 0.0), 1.5 * result.get("cut_after", 0.0))


def merged(earlier: Result | None, result: Result) -> Result:
    """Returns the result to store: the new one, or if the new run was cut, the last complete one
    with a note of the cut."""
    if result["status"] == "cut" and has_result(earlier):
        return earlier | {"cut_after": result["cut_after"]}
    return result


def write(record: Record, path: Path) -> None:
    """Replaces the record in one step: a reader finds the old record or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".json.part")
    unfinished.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    os.replace(unfinished, path)


def shared(values: Iterable[Any]) -> str:
    """Returns the distinct values as text, in their order, joined by commas."""
    return ", ".join(dict.fromkeys(map(str, values)))


def driver_version() -> str | None:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
