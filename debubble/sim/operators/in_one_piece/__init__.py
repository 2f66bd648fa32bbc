"""Operators that CUDA has in one piece, and PyTorch composes of others for an unknown device."""
