"""Differences between CUDA's operators and the CPU's: dtypes that CUDA refuses, dtypes that only
CUDA has, and results that the CPU computes by other means."""
