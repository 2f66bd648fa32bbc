"""Pieces of the sites, each an exercise of its own."""
