"""Chapters and cells of chapters for the kit's tests."""

from pathlib import Path

from debubble.commands.board.questions import STORED

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / STORED).glob("*.ipynb"))


def markdown(text: str) -> dict:
    return {"cell_type": "markdown", "source": text, "metadata": {}}


def code(text: str, *outputs: dict) -> dict:
    return {"cell_type": "code", "source": text, "outputs": list(outputs), "metadata": {}}


def widget(words: str) -> dict:
    data = {"application/vnd.jupyter.widget-view+json": {}, "text/plain": words}
    return {"output_type": "display_data", "data": data}


def printed(text: str) -> dict:
    return {"output_type": "stream", "text": [text]}


def chapter_of(number: str) -> Path:
    return next(path for path in CHAPTERS if path.name.startswith(number))
