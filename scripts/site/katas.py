"""A page for each kata: its task, its hints one by one, and the command that runs its tests."""

from __future__ import annotations

import ast
from pathlib import Path

from debubble.exercises.kata_files.catalogue import Catalogue, Kata

from .page import Page

INDEX = "katas/index.html"


def index(root: Path, chapters: list[Page]) -> Page:
    """Returns the page with links to all katas, below their chapters."""
    text = f"# Katas\n\n{ABOUT}\n\n{by_chapter(root, chapters)}"
    return Page.of_markdown(INDEX, "Katas", text, "katas/README.md")


ABOUT = """A kata is a small function that works but stalls, with a failing test that teaches.
Solve the katas of a chapter after you have read it."""


def pages(root: Path) -> list[Page]:
    return [
        Page.of_markdown(
            path_of(kata),
            kata.title,
            text_of(kata),
            kata.relative(kata.stub_path),
        )
        for kata in Catalogue(root).katas
    ]


def by_chapter(root: Path, chapters: list[Page]) -> str:
    """Returns links to the pages of all katas, each below its chapter, after which it is to be
    solved."""
    katas = Catalogue(root).katas
    parts = []
    for chapter in chapters:
        own = [kata for kata in katas if chapter.path.startswith(f"{kata.chapter}_")]
        links = [
            f"- [{kata.title}]({path_of(kata).removeprefix('katas/')}) ({kata.effort})"
            for kata in own
        ]
        parts += [f"## {chapter.title}", "\n".join(links)]
    return "\n\n".join(parts)


def path_of(kata: Kata) -> str:
    return f"katas/{kata.system}/{kata.name}.html"


EDITABLE = "# Yours to edit, from here on."
SHOWN = "This page only shows it. [Run it](#run-it) says how to work on it."
SET_UP = """Work on it in a terminal, in the folder of [a checkout of the repository](../..).
Its README says what `make lab` needs."""


def text_of(kata: Kata) -> str:
    parts = [f"# {kata.title}", f"Kata `{kata.name}` of chapter {kata.chapter}: {kata.effort}."]
    parts += ["## Task", kata.task, "## The function", SHOWN, stub_of(kata), "## Run it", SET_UP]
    parts += ["```sh\nmake lab   # once: sets up .venv, and opens JupyterLab\n"
              f".venv/bin/debubble next {kata.name}    # your copy of it, and its task\n"
              f".venv/bin/debubble watch {kata.name}   # runs its tests whenever you save\n```",
              f"The stub is `{kata.relative(kata.stub_path)}`, its tests are "
              f"`{kata.relative(kata.test_path)}`.", "## Hints"]  # fmt: skip
    for number, hint in enumerate(kata.hints, 1):
        summary = f"Hint {number} of {len(kata.hints)}"
        parts += [f"<details><summary>{summary}</summary>", hint, "</details>"]
    if kata.try_this:
        parts += ["## When it is solved", f"Try this: {kata.try_this}"]
    return "\n\n".join(parts)


def stub_of(kata: Kata) -> str:
    """Returns the stub's code, without the docstring, which has the task, and without the mark for
    those who edit it."""
    source = kata.stub_path.read_text()
    first = ast.parse(source).body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    lines = source.splitlines()[first.end_lineno if is_docstring else 0 :]
    code = "\n".join(line for line in lines if line != EDITABLE).strip("\n")
    return f"```python\n{code}\n```"
