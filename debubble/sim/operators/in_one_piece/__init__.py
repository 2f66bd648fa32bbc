"""Operators that CUDA runs in one piece, and that PyTorch composes of others for other devices."""
