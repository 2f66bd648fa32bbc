"""`make kit`: slides, usual mistakes, questions and papers of a workshop, made from the workbook.

    build/kit/slides/NN_….html   a chapter as slides, without files from the network
    build/kit/mistakes.md        what learners write in each kata, and what they are told
    build/kit/questions.md       each prediction: where it stands, its answer and the reason
    build/kit/certificate.html, feedback.html   to print, or to fill in

They are made again at each call, so that the slides match the chapters.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from debubble.commands.board.questions import STORED
from debubble.exercises.kata_files.catalogue import Catalogue

from .mistakes import mistakes
from .questions import questions
from .slides import slides

ROOT = Path(__file__).resolve().parents[2]
PAPERS = Path(__file__).with_name("papers")


def main(folder: Path) -> None:
    (folder / "slides").mkdir(parents=True, exist_ok=True)
    (folder / "mistakes.md").write_text(mistakes(Catalogue(ROOT).katas), encoding="utf-8")
    chapters = sorted((ROOT / STORED).glob("*.ipynb"))
    (folder / "questions.md").write_text(questions(chapters), encoding="utf-8")
    for paper in PAPERS.glob("*.html"):
        shutil.copy(paper, folder)
    for chapter in chapters:
        (folder / "slides" / f"{chapter.stem}.html").write_text(slides(chapter), encoding="utf-8")
        print(f"{folder}/slides/{chapter.stem}.html")
    print(f"{folder} has the slides, mistakes.md, questions.md and the papers.")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "build/kit"))
