"""axe-core on a page: what keeps people out of it."""

from __future__ import annotations

from playwright.sync_api import Page

from .chromium import need


def violations(page: Page, within: str | None = None) -> list[str]:
    """Each rule that is broken, with where; `within`: a selector, or the whole page."""
    need("axe_playwright_python")
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, context=within).response["violations"]
    return [
        f"{rule['id']}: {rule['help']}: {node['html'][:160]} ({node.get('failureSummary', '')})"
        for rule in found
        for node in rule["nodes"][:3]
    ]
