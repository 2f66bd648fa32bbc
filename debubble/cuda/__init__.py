"""CUDA through PyTorch: the accelerator, its recordings from Kineto, its guard against waits."""
