"""The usual mistakes of each kata, from the workbook's own wrong attempts.

Each attempt is code that a learner could write, with a description of its mistake; `debubble check`
proves that its failing test says so. So a teacher knows before the class which questions will come.
"""

from __future__ import annotations

from collections.abc import Sequence

from debubble.exercises.kata_files.attempts import WrongAttempt, wrong_attempts
from debubble.exercises.kata_files.catalogue import Kata

INTRODUCTION = """# Usual mistakes

What learners write in each kata, and what the failing test tells them. Let the test speak first,
then ask: which line of the timeline is that? `debubble hint` has two or three more steps.
"""


def mistakes(katas: Sequence[Kata]) -> str:
    lines = [INTRODUCTION]
    chapter = ""
    for kata in katas:
        if kata.chapter != chapter:
            chapter = kata.chapter
            lines.append(f"## Chapter {chapter}\n")
        minutes = f", {kata.minutes} minutes" if kata.minutes else ""
        lines.append(f"### {kata.title} (`{kata.name}`{minutes})\n")
        lines.append("| what they do | what they are told |\n| --- | --- |")
        lines += [_row(attempt) for attempt in wrong_attempts(kata)]
        if kata.differs:
            lines.append(f"\nAfterwards: {' '.join(kata.differs.split())}")
        lines.append("")
    return "\n".join(lines)


def _row(attempt: WrongAttempt) -> str:
    told = " … ".join(dict.fromkeys(attempt.says))
    return f"| {_cell(what_it_does(attempt))} | {_cell(told)} |"


def what_it_does(attempt: WrongAttempt) -> str:
    """Returns the description of a wrong attempt in one line: the first paragraph of its header."""
    text = attempt.path.read_text(encoding="utf-8").lstrip('"\n')
    return " ".join(text.partition("\n\n")[0].split()).rstrip('"')


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
