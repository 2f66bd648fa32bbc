"""The benchmark: what a step costs as it was, with each site fixed, and with one upload."""
