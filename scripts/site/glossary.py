"""The glossary page, made from `docs/glossary.md`."""

from __future__ import annotations

from pathlib import Path

from .page import Page


def pages(root: Path) -> list[Page]:
    path = root / "docs/glossary.md"
    if not path.exists():
        return []
    return [Page.of_markdown("glossary.html", "Glossary", path.read_text(), "docs/glossary.md")]
