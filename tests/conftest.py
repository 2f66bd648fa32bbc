"""What all our tests share: which accelerator a test needs, and patience for a busy machine."""

import pytest
from hypothesis import settings

import debubble

# A property's first example pays for what is compiled or imported on first use.
settings.register_profile("debubble", deadline=None)
settings.load_profile("debubble")

NEEDS = {"gpu": "cuda", "sim": "sim"}
"""The accelerator that a marker asks for. A process has one, so the tests of the other wait."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, name in NEEDS.items():
        if item.get_closest_marker(marker):
            present = debubble.accelerator(item.config.getoption("device") or "auto")
            if present.name != name:
                pytest.skip(f"needs {name}, and this run is on {present.description}")
