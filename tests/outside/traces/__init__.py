"""Traces of torch.profiler, made on a GPU, that judge how `debubble.traces` reads them."""
