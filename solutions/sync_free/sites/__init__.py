"""The eight sites after the change, each by itself: no host sync, and at most one upload."""
