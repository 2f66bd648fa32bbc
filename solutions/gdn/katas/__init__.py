"""Exercises whose solution is not what the system runs; each says why."""
