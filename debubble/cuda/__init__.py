"""CUDA through PyTorch: the accelerator, its recordings from Kineto, and its guard against waits."""
