"""A kernel that does nothing for a given time."""

import triton
from triton.language.extra.cuda import globaltimer


@triton.jit
def sleep(nanoseconds):
    """Keeps one program busy for `nanoseconds` of the device's own clock, which doesn't depend on
    how fast the cores run."""
    start = globaltimer()
    now = start
    while now - start < nanoseconds:
        now = globaltimer()
