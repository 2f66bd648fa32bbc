"""Lets pytest find debubble's own plugins in a checkout that is not installed."""

pytest_plugins = ["debubble.workshop.plugin", "debubble.detector.pytest_plugin"]
