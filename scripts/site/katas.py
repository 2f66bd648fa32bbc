"""A page for each kata: its task, its hints one by one, and the command that runs its tests."""

from __future__ import annotations

from pathlib import Path

from debubble.workshop.kata_files.catalogue import Catalogue, Kata

from .page import Page


def pages(root: Path) -> list[Page]:
    return [
        Page.of_markdown(
            f"katas/{kata.system}/{kata.name}.html",
            kata.title,
            text_of(kata),
            kata.relative(kata.stub_path),
        )
        for kata in Catalogue(root).katas
    ]


def text_of(kata: Kata) -> str:
    effort = ", ".join(filter(None, [kata.difficulty, kata.minutes and f"{kata.minutes} minutes"]))
    parts = [f"# {kata.title}", f"Kata `{kata.name}` of chapter {kata.chapter}: {effort}."]
    parts += ["## Task", kata.task, "## Run it"]
    parts += [f"```sh\ndebubble next {kata.name}    # your copy of it, and its task\n"
              f"debubble watch {kata.name}   # runs its tests whenever you save\n```",
              f"The stub is `{kata.relative(kata.stub_path)}`, its tests are "
              f"`{kata.relative(kata.test_path)}`.", "## Hints"]  # fmt: skip
    for number, hint in enumerate(kata.hints, 1):
        summary = f"Hint {number} of {len(kata.hints)}"
        parts += [f"<details><summary>{summary}</summary>", hint, "</details>"]
    if kata.try_this:
        parts += ["## When it is solved", f"Try this: {kata.try_this}"]
    return "\n\n".join(parts)
