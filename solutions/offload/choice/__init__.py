"""Chooses the path that copies a list of pieces fastest, as measured on a GPU."""
