"""The eight sites, each fixed by itself: no host sync is left, and at most one upload."""
