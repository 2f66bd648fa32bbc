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
    from playwright.sync_api import Browser, Page

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
    """Yields a page of a context of its own, made with these options. Checks at the end that it had
    no error, logged nothing, opened no dialog and asked only for addresses that begin with a base,
    "data:" or "blob:"."""
    context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}} | options)
    page = context.new_page()
    page.set_default_timeout(60_000)
    trouble: list[str] = []
    inside = (*bases, "data:", "blob:")
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: trouble.append(dialog.message))
    page.on("request", lambda r: r.url.startswith(inside) or trouble.append(r.url))
    yield page
    context.close()
    assert trouble == []


def need(*packages: str) -> None:
    """Fails the test in CI, and skips it elsewhere, if a package of a browser test is missing."""
    missing = [package for package in packages if find_spec(package) is None]
    if not CHROMIUM.exists():
        missing.append(f"Chromium ({CHROMIUM})")
    if missing:
        step_aside = pytest.fail if os.environ.get("CI") else pytest.skip
        step_aside(f"not installed here: {', '.join(missing)}")
