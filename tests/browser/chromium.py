"""The Chromium of the browser tests: headless, without a network, and required only in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    need("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def quiet_page(browser: Browser, *bases: str, **options: Any) -> Iterator[Page]:
    """Yields a new page of the context that has these options, with nothing stored. Checks at the
    end that it had no error, logged nothing, opened no dialog and asked only for addresses that
    begin with a base, "data:" or "blob:"."""
    context = _context(browser, {"viewport": {"width": 1400, "height": 900}} | options)
    page = context.new_page()
    page.set_default_timeout(60_000)
    trouble: list[str] = []
    inside = (*bases, "data:", "blob:")
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: trouble.append(dialog.message))
    page.on("request", lambda r: r.url.startswith(inside) or trouble.append(r.url))
    yield page
    _empty(context)
    assert trouble == []


def _context(browser: Browser, options: dict[str, Any]) -> BrowserContext:
    """Returns the browser's context with these options. Its first page stays open and blank: a page
    costs less than half as much in a context that has another one."""
    contexts: dict[str, BrowserContext] = vars(browser).setdefault("contexts_by_options", {})
    key = repr(options)
    if key not in contexts:
        contexts[key] = browser.new_context(**options)
        contexts[key].new_page()
    return contexts[key]


def _empty(context: BrowserContext) -> None:
    """Closes all pages of the context but the first, and deletes what they stored."""
    first, *others = context.pages
    for page in others:
        page.close()
    context.clear_cookies()
    session = context.new_cdp_session(first)
    session.send("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})
    session.detach()


def need(*packages: str) -> None:
    """Fails the test in CI, and skips it elsewhere, if a package of a browser test is missing."""
    missing = [package for package in packages if find_spec(package) is None]
    if not CHROMIUM.exists():
        missing.append(f"Chromium ({CHROMIUM})")
    if missing:
        step_aside = pytest.fail if os.environ.get("CI") else pytest.skip
        step_aside(f"not installed here: {', '.join(missing)}")
