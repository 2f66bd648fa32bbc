"""Runs chapters from top to bottom and stores their outputs: store_chapters.py NOTEBOOK...

Each chapter has two files with the same cells. The reference in tests/chapters/ holds all outputs,
and a run is compared with it. The reader's file, in chapters/, holds the outputs above its first
question and none below: a stored output would be an answer.

Output that would differ from one run to the next (widget state, run times) is left out. If a cell
of a notebook fails, neither file changes.
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
READERS, REFERENCES = ROOT / "chapters", ROOT / "tests/chapters"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
SECONDS_PER_CELL = 300
QUESTION = "Predict: "
"""The beginning of the text that a question shows in a cell's output."""


def store(path: Path) -> None:
    notebook = nbformat.read(READERS / path.name, as_version=4)
    clear(notebook.cells)
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    )
    NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=SECONDS_PER_CELL,
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(READERS)}},
    ).execute()
    notebook.metadata.language_info = nbformat.from_dict({"name": "python"})
    nbformat.write(notebook, REFERENCES / path.name)
    clear(from_the_first_question_on(notebook.cells))
    nbformat.write(notebook, READERS / path.name)


def from_the_first_question_on(cells: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    asking = (
        number
        for number, cell in enumerate(cells)
        for output in cell.get("outputs", ())
        if "".join(output.get("data", {}).get("text/plain", "")).startswith(QUESTION)
    )
    return cells[next(asking, len(cells)) :]


def clear(cells: list[nbformat.NotebookNode]) -> None:
    for cell in cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


if __name__ == "__main__":
    os.environ["DEBUBBLE_STORING"] = "1"  # The site needs it to show views without a kernel.
    os.environ["DEBUBBLE_PROGRESS"] = "off"  # A bar would leave an empty output behind.
    os.environ["DEBUBBLE_ANSWERS"] = "at once"  # There is no reader to commit.
    for argument in sys.argv[1:]:
        print(f"running {argument}", flush=True)
        store(Path(argument))
