"""The folders of the snapshot and of the workbook."""

from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
