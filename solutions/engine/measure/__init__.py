"""Presets, and what is measured of them."""
