"""Runs one of Triton's tutorials unchanged, with the first N sizes of each of its benchmarks:
`python first_sizes.py N TUTORIAL`. sim interprets kernels, so that all sizes take too long."""

import runpy
import sys

from triton import testing


class FirstSizes(testing.Benchmark):
    def __init__(self, *args, x_vals, **kwargs) -> None:
        super().__init__(*args, x_vals=x_vals[: int(sys.argv[1])], **kwargs)


testing.Benchmark = FirstSizes
runpy.run_path(sys.argv[2], run_name="__main__")
