"""A board's page in a browser: how soon it shows what a learner's file says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

WATCH_FOR = """
text => {
  const table = document.querySelector("#learners");
  window.shownAt = new Promise((told) => {
    const look = () => table.innerText.includes(text) && told(Date.now());
    new MutationObserver(look).observe(table, { childList: true, subtree: true });
  });
}
"""


def seconds_behind(page: Page, text: str, write: Callable[[], Path]) -> float:
    """Returns how many seconds after a learner's file was written the page shows `text` in its
    table. `write` writes the file and returns its path."""
    page.evaluate(WATCH_FOR, text)
    written = write().stat().st_mtime
    return page.evaluate("() => window.shownAt") / 1000 - written
