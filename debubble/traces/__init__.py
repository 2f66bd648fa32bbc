"""Other people's recordings as ours: traces that torch.profiler wrote, read without PyTorch."""
