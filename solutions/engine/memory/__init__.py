"""Blocks of the KV cache: who holds them, and where their bytes lie."""
