"""The Triton kernels that the sites launch."""
