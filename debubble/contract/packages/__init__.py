"""The packages that debubble runs on: which are installed, and how Triton runs kernels."""
