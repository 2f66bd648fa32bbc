"""Samples tokens from logits by each request's sampling parameters: on the device, in one launch
that a graph can contain."""
