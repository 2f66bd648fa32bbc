"""The pytest plugin that gives the `kata` fixture many implementations in turn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from .loader import Implementation


class Implementations:
    """Each test of a kata runs on each of its implementations."""

    def __init__(self, implementations: Sequence[Implementation]) -> None:
        self.implementations = implementations
        self.refusals: list[str] = []
        """A sentence for each test that can't be run on them."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        path = metafunc.definition.path
        if "kata" not in metafunc.fixturenames:
            name = metafunc.function.__name__
            self.refusals.append(f"{path.name}: {name} does not take the `kata` fixture")
            return
        own = [found for found in self.implementations if found.kata.test_path == path]
        metafunc.parametrize("kata", own, ids=[found.label for found in own], indirect=True)
