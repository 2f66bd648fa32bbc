"""What was recorded for everyone: calibrations, benchmarks, timelines, beside the package."""

from __future__ import annotations

import re
from pathlib import Path

ASSETS = Path(__file__).resolve().parents[1] / "assets"


def slug(gpu: str) -> str:
    """`NVIDIA H200` as `nvidia-h200`: the name of a GPU's files in ASSETS."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
