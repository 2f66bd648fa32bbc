"""Compares sim with PyTorch's own database of operators: each operator on every type that CUDA
has."""
