"""Lets pytest find the workbook's own plugin in a checkout that is not installed."""

import pytest


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    if not pluginmanager.has_plugin("debubble"):
        from debubble.workshop import plugin

        pluginmanager.register(plugin, "debubble")
