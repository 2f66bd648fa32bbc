"""The progress of long work: a bar in a terminal or a notebook, which disappears when the work is
done."""

from __future__ import annotations

import html
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Protocol, TypeVar

from .notebook import in_notebook

Item = TypeVar("Item")
# Work that takes less shows no bar.
PATIENCE_SECONDS = 1.0
REFRESH_SECONDS = 0.1


class Bar(Protocol):
    def show(self, done: int) -> None: ...
    def close(self) -> None: ...


def progress(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """Yields `items`; if that takes longer than a second, shows `label` and how many items are
    done.

    A bar leaves no trace in a notebook's output, and is not drawn under pytest, which compares
    output, or when output goes to a file.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    bar: Bar | None = None
    may_show = can_show()
    began = shown = time.monotonic()
    try:
        for done, item in enumerate(items):
            now = time.monotonic()
            if may_show and now - began >= PATIENCE_SECONDS and now - shown >= REFRESH_SECONDS:
                bar = bar or make_bar(label, total)
                bar.show(done)
                shown = now
            yield item
    finally:
        if bar is not None:
            bar.close()


def can_show() -> bool:
    """Returns True if a bar may be drawn: in a notebook or a terminal, unless DEBUBBLE_PROGRESS is
    off or pytest runs this process. Kernels that nbval starts inherit pytest's environment."""
    if "PYTEST_VERSION" in os.environ or os.environ.get("DEBUBBLE_PROGRESS") == "off":
        return False
    return in_notebook() or sys.stderr.isatty()


def make_bar(label: str, total: int | None) -> Bar:
    return NotebookBar(label, total) if in_notebook() else TerminalBar(label, total)


class NotebookBar:
    """A progress bar in a notebook: one output that is rewritten in place, and empty at the end."""

    def __init__(self, label: str, total: int | None) -> None:
        self.label, self.total = label, total
        self.handle = None

    def show(self, done: int) -> None:
        from IPython.display import display

        data = {"text/html": progress_html(self.label, done, self.total)}
        if self.handle is None:
            self.handle = display(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)

    def close(self) -> None:
        if self.handle is not None:
            self.handle.update({}, raw=True)


class TerminalBar:
    def __init__(self, label: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task(label, total=total)
        self.bar.start()

    def show(self, done: int) -> None:
        self.bar.update(self.task, completed=done)

    def close(self) -> None:
        self.bar.stop()


def progress_html(label: str, done: int, total: int | None) -> str:
    """Returns the HTML of a progress bar with its label and count: a native element, which screen
    readers know."""
    words = html.escape(label)
    if not total:
        return f"<label>{words} <progress></progress> {done}</label>"
    bar = f'<progress value="{done}" max="{total}"></progress>'
    return f"<label>{words} {bar} {done} of {total}</label>"
