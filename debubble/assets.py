"""What was recorded for everyone: calibrations, benchmarks, timelines, beside the package."""

from __future__ import annotations

from pathlib import Path

ASSETS = Path(__file__).resolve().parents[1] / "assets"
