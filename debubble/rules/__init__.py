"""What PyTorch's operators do on CUDA: launches, copies and host waits, as rules over metadata."""
