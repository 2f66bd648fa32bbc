"""Runs notebooks from top to bottom and stores what they show: store_chapters.py NOTEBOOK...

What would differ from one run to the next (widget state, run times) is left out. A notebook whose
cell fails stays as it was.
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
SECONDS_PER_CELL = 120


def store(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    clear(notebook)
    NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=SECONDS_PER_CELL,
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    )
    nbformat.write(notebook, path)


def clear(notebook: nbformat.NotebookNode) -> None:
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


if __name__ == "__main__":
    os.environ["DEBUBBLE_STORING"] = "1"  # With what the site needs to show views without a kernel.
    os.environ["DEBUBBLE_PROGRESS"] = "off"  # A bar would leave an empty output behind.
    for argument in sys.argv[1:]:
        print(f"running {argument}", flush=True)
        store(Path(argument))
