"""Code that says "cuda", on sim: the device's name, `torch.cuda`, and whatever else leads there."""
