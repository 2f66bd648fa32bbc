"""Sim held to PyTorch's own database of operators: each on every type that CUDA has."""
