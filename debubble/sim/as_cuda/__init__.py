"""Runs code that says "cuda" on sim: device name, `torch.cuda`, autocast, compile, Triton, NCCL."""
