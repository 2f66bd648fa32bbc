"""Runs a learner's file under pytest: loads it, limits it, gives it a process, and words its
failures."""
