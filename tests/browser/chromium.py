"""The Chromium of the browser tests: headless, without a network, and required only in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

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


def need(*packages: str) -> None:
    """Fails the test in CI, and skips it elsewhere, if a package of a browser test is missing."""
    missing = [package for package in packages if find_spec(package) is None]
    if not CHROMIUM.exists():
        missing.append(f"Chromium ({CHROMIUM})")
    if missing:
        step_aside = pytest.fail if os.environ.get("CI") else pytest.skip
        step_aside(f"not installed here: {', '.join(missing)}")
