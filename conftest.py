"""Lets pytest find the workbook's own plugin in a checkout that is not installed."""

import pytest

from debubble.workshop import plugin


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    # An installed debubble has registered its plugin by itself.
    if not pluginmanager.is_registered(plugin):
        pluginmanager.register(plugin, "debubble")
