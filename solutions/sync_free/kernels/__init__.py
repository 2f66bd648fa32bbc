"""Triton kernels, each with the function that launches it and the checks of its arguments."""
