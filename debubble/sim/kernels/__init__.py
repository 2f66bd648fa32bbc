"""Kernels and copies by address on sim: what they may reach, and running them."""
