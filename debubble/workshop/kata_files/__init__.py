"""Katas as files: the catalogue, stubs and what they are made of, attempts, strays."""
