"""Katas as files: the catalogue, stubs and their sources, wrong attempts, and stray files."""
