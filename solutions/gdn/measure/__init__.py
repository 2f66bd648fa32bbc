"""Measures a step of prompts, compares the forward with its peer's, and times the host's
planning."""
