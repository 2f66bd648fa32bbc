"""Compares this engine with transformers: both serve the same checkpoint, each in a process of its
own."""
