"""The pages made from `docs/`: glossary, results, machines, finding your waits."""

from __future__ import annotations

from pathlib import Path

from .page import Page

ORDER = (
    "find_your_waits",
    "open_your_trace",
    "results",
    "pictures",
    "accuracy",
    "machines",
    "waits_in_vllm",
)
"""The first pages, in the order of the side bar; all others follow by name."""


def pages(root: Path) -> list[Page]:
    """Returns a page for each file, the glossary last, with its first heading as its title."""
    paths = sorted((root / "docs").glob("*.md"), key=lambda path: (place(path.stem), path.stem))
    return [page_of(path) for path in paths]


def place(name: str) -> int:
    if name == "glossary":
        return len(ORDER) + 1
    return ORDER.index(name) if name in ORDER else len(ORDER)


def page_of(path: Path) -> Page:
    text = path.read_text()
    title = text.partition("\n")[0].removeprefix("# ")
    target = "glossary.html" if path.stem == "glossary" else f"docs/{path.stem}.html"
    about = {"trace": "data-trace" in text}
    return Page.of_markdown(target, title, text, f"docs/{path.name}", about)
