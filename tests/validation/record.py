"""What a validation leaves behind: of each part whether it passed, on which source, when, and with
which versions. A part keeps its result until it runs again; it is stale once its source changed."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from debubble.contract.installed import installed

KEPT = "kept as they were"
"""Said of the figures of a benchmark that ran and wrote none: the recorded ones are older."""
OLD_FIGURES = "figures kept from an earlier run"
"""The state of a benchmark that passed on this source, and whose recorded figures are not of that
run."""
VERSIONS = ("driver", "cuda", "python", "torch", "triton", "numpy", "platform")
Record = dict[str, Any]


def device_of(device: str) -> dict[str, str | int]:
    """Whose record it is."""
    import torch

    on_gpu = device == "cuda"
    return {
        "gpu": torch.cuda.get_device_name() if on_gpu else "sim",
        "gpus": torch.cuda.device_count() if on_gpu else 1,
    }


def versions(device: str) -> dict[str, str | None]:
    """That a result depends on, by the names of VERSIONS."""
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
    """Empty where there is none yet, and where it is of another form than ours."""
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return record if isinstance(record.get("parts"), dict) else {}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def is_current(result: dict[str, Any] | None, source: str) -> bool:
    """Whether a part passed, and nothing that it rests on has changed since."""
    return bool(result) and result["status"] == "passed" and result["source_sha256"] == source


def state_of(result: dict[str, Any] | None, source: str) -> str:
    """ "passed", "failed", "stale", "missing", or OLD_FIGURES."""
    if not result:
        return "missing"
    if result["source_sha256"] != source:
        return "stale"
    has_old_figures = result["status"] == "passed" and result.get("figures") == KEPT
    return OLD_FIGURES if has_old_figures else result["status"]


def is_finished(record: Record, sources: dict[str, str]) -> bool:
    """Whether all parts, by name with the source they rest on now, are current."""
    return all(is_current(record["parts"].get(name), source) for name, source in sources.items())


def write(record: Record, path: Path) -> None:
    """In one step: a reader finds the old record or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".json.part")
    unfinished.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    os.replace(unfinished, path)


def shared(values: Iterable[Any]) -> str:
    """The one value that all have, or all of them."""
    return ", ".join(dict.fromkeys(map(str, values)))


def driver_version() -> str | None:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
