"""The chapters as data: their cells, and what a reader sees in which order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
READERS = sorted((ROOT / "chapters").glob("*.ipynb"))
REFERENCES = sorted((ROOT / "tests/chapters").glob("*.ipynb"))
HIDDEN = "source_hidden"
QUESTION = "Predict: "
MORE = "more"
"""The tag of each cell in a folded part, its heading included."""


@dataclass(frozen=True)
class Cell:
    id: str
    kind: str
    """The cell's kind, "markdown" or "code"."""
    source: str
    shown: str
    """All text of the cell's outputs; "" in a reader's notebook after the first question."""
    metadata: dict

    @property
    def is_collapsed(self) -> bool:
        """True if JupyterLab hides the cell's code until the reader opens it."""
        return bool(self.metadata.get("jupyter", {}).get(HIDDEN))

    @property
    def is_more(self) -> bool:
        """True if the cell is off the main path, below "If you want to know more"."""
        return MORE in self.metadata.get("tags", ())

    @property
    def asks(self) -> bool:
        return self.shown.startswith(QUESTION) or f"\n{QUESTION}" in self.shown


def cells_of(path: Path) -> list[Cell]:
    return [cell_of(cell) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


def cell_of(cell: dict) -> Cell:
    shown = []
    for output in cell.get("outputs", ()):
        shown.append("".join(output.get("text", "")))
        shown.append("".join(output.get("data", {}).get("text/plain", "")))
    text = "\n".join(filter(None, shown))
    return Cell(cell["id"], cell["cell_type"], "".join(cell["source"]), text, cell["metadata"])
