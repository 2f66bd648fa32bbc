"""The benchmark: a step before the change, with each site fixed, and with one upload for all."""
