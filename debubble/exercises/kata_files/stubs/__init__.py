"""Stubs: made from the solutions, with what they are given, and kept as files."""
