"""Paths of the recorded assets. A checkout has all of them, a wheel has only the calibrations."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
ASSETS = PACKAGE.parent / "assets"
"""The folder of recorded assets; only a checkout has it."""
INSTALLED = PACKAGE / "calibration"
"""The folder in which a wheel has the calibrations that a checkout has in ASSETS (setup.py)."""
CALIBRATIONS = INSTALLED if INSTALLED.is_dir() else ASSETS / "calibration"


def slug(gpu: str) -> str:
    """Returns the name of a GPU's files in ASSETS: `NVIDIA H200` becomes `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
