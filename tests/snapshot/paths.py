"""Where the snapshot and the workbook lie."""

from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
