"""Modelled time, without PyTorch: how long work takes, and when launches, copies and waits end."""
