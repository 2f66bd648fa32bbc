"""Runs axe-core on a page, to find barriers to access."""

from __future__ import annotations

from playwright.sync_api import Page

from .chromium import need


def violations(page: Page, within: str | None = None) -> list[str]:
    """Returns each broken rule with its place. `within` is a selector; None checks the whole
    page."""
    need("axe_playwright_python")
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, context=within, options={"preload": False}).response["violations"]
    return [
        f"{rule['id']}: {rule['help']}: {node['html'][:160]} ({node.get('failureSummary', '')})"
        for rule in found
        for node in rule["nodes"][:3]
    ]
