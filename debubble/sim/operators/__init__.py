"""What PyTorch's operators do on sim: the bytes are computed on the CPU, the work is queued."""
