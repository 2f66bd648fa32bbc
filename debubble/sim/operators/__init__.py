"""PyTorch's operators on sim: compute the bytes on the CPU, and queue the work in modelled time."""
