"""Lets a checkout run the katas without being installed."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from debubble.workshop import plugin


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    # An installed debubble has registered its plugin by itself.
    if not pluginmanager.is_registered(plugin):
        pluginmanager.register(plugin, plugin.__name__)
