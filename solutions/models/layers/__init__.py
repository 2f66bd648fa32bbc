"""Layers of families that differ from a plain decoder in more than their weights."""
