"""Measures loads of KV blocks: of one prefix, over a grid of copies, and in a serving loop."""
