"""Benchmarks of the engine, and their presets."""
