"""Blocks of the KV cache: their holders, their contents, and where their bytes lie."""
