"""A grid of copies, and requests served a second."""
