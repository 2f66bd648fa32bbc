"""The Triton kernels of the rule."""
