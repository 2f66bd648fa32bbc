"""Sync elimination."""
