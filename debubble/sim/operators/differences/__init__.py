"""Where CUDA's operators are not the CPU's: types that it refuses, types that only it has, results
that the CPU computes by other means."""
