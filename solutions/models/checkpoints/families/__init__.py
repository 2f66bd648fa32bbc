"""Families of models: for each a module that reads its config and names its weights."""
