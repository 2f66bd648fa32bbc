"""Kernels and copies by address on sim: checks the memory that they reach, and runs them."""
