"""Measures steps, and formats and stores the results."""
