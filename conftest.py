"""The workbook's own plugin, with its options and fixtures: nobody else's pytest has them."""

pytest_plugins = ["debubble.workshop.plugin", "debubble_pytest"]
