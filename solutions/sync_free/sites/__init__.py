"""The eight places as they are now, each beside its twin in `before`."""
