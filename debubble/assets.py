"""What was recorded for everyone, in a checkout; of that a wheel has the calibrations."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
ASSETS = PACKAGE.parent / "assets"
"""Only a checkout has them."""
INSTALLED = PACKAGE / "calibration"
"""Where a wheel has what the checkout has in ASSETS (setup.py)."""
CALIBRATIONS = INSTALLED if INSTALLED.is_dir() else ASSETS / "calibration"


def slug(gpu: str) -> str:
    """`NVIDIA H200` as `nvidia-h200`: the name of a GPU's files in ASSETS."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
