"""The eight sites and four pieces of them after the change: no host sync, one upload at most."""
