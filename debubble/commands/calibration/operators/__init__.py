"""Measures the kernels of ATen operators, one call at a time, for `assets/calibration/kernels`."""
