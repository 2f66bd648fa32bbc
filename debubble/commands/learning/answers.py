"""`debubble hint`, `debubble solution` and `debubble diff`: help with a kata."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

import typer

from debubble.exercises.kata_files.catalogue import Kata
from debubble.exercises.kata_files.stubs.source import source_module
from debubble.exercises.kata_files.typed import typed

from ..refusal import refuse, refusing
from .learner import Learner

COLOURS = {"-": "red", "+": "green", "@": "cyan"}


def hint(word: str | None, step: int | None = None) -> None:
    """Prints the next step of a kata's hint that was not shown yet, or step `step`, and records it.
    After the last step it prints all of them again."""
    with refusing():
        learner = Learner()
        kata = learner.choose(word)
        steps = len(kata.hints)
        taken = learner.standings[kata.name].hints
        if step is not None and not 1 <= step <= steps:
            refuse(f"there is no step {step} of the hint for {kata.name}: it has {steps}")
        wanted = step or taken + 1
        shown = [wanted] if wanted <= steps else [*range(1, steps + 1)]
        path = learner.workspace.file_of(kata)
        typer.secho(f"{kata.title} ({kata.relative(path)})", bold=True)
        for number in shown:
            heading = f"Hint {number} of {steps}" if steps > 1 else "Hint"
            typer.secho(f"\n{heading}", fg="cyan")
            typer.echo(kata.hints[number - 1])
        remembered = shown[-1] <= taken or learner.remember("hint", kata, step=shown[-1])
        if shown[-1] < steps:
            command = typed("debubble hint")
            if not remembered:
                command = typed(f"debubble hint {kata.name} --step {shown[-1] + 1}")
            typer.secho(f"\n`{command}` shows the next step.", fg="cyan")


def solution(word: str | None, spoil: bool) -> None:
    """Prints our solution of a kata, and what it does differently from a first right answer.
    Refuses a kata that isn't solved, unless `spoil` is set."""
    with refusing():
        learner = Learner()
        kata = _allowed(learner, word, spoil, "solution")
        for target in kata.solution:
            ours = source_module(target.module, kata.root)
            typer.secho(f"# {kata.relative(ours.path)}", bold=True)
            typer.echo(f"{ours.statement_text(ours.definition(target.name))}\n")
        if kata.differs:
            typer.echo(kata.differs)


def diff(word: str | None, spoil: bool) -> None:
    """Prints how our solution of a kata differs from the learner's code: our lines (+) in place of
    theirs (-). Refuses a kata that isn't solved, unless `spoil` is set."""
    with refusing():
        learner = Learner()
        kata = _allowed(learner, word, spoil, "diff")
        path = learner.workspace.file_of(kata)
        for target in kata.solution:
            ours = source_module(target.module, kata.root)
            yours = _definition(path, target.name, kata)
            text = ours.statement_text(ours.definition(target.name))
            lines = difflib.unified_diff(
                yours.splitlines(),
                text.splitlines(),
                kata.relative(path),
                kata.relative(ours.path),
                lineterm="",
            )
            for number, line in enumerate(lines):
                head = number < 2
                typer.secho(line, fg=None if head else COLOURS.get(line[:1]), bold=head)


def _allowed(learner: Learner, word: str | None, spoil: bool, command: str) -> Kata:
    """Returns the kata that `word` means if its solution may be shown. Without a word it is the
    current kata if that is solved or `spoil` is set, else the last solved one. Refuses an unsolved
    kata unless `spoil` is set; then it records that the solution was shown."""
    kata = learner.choose(word)
    solved = learner.standings[kata.name].solved
    if not word and not solved and not spoil:
        last = [e.get("kata") for e in learner.events if e.get("verdict") == "passed"]
        kata = learner.choose(str(last[-1])) if last else kata
        solved = learner.standings[kata.name].solved
    if solved:
        return kata
    if not spoil:
        debubble = typed("debubble")
        refuse(
            f"{kata.name} is not solved yet: `{debubble} hint {kata.name}` helps, and "
            f"`{debubble} {command} {kata.name} --spoil` shows our solution all the same"
        )
    learner.remember("solution", kata)
    return kata


def _definition(path: Path, name: str, kata: Kata) -> str:
    """Returns the text of the learner's function or class `name`, or the whole file if it has none
    or Python can't read it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        refuse(f"{kata.relative(path)} can't be read: {error}")
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return text
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return ast.get_source_segment(text, node) or text
    return text
