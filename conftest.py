"""Lets pytest find the workbook's own plugin in a checkout that is not installed."""

pytest_plugins = ["debubble.workshop.plugin"]
