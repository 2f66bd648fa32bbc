"""A kernel that ends when the host opens the gate, or after a time limit."""

import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer


@triton.jit(do_not_specialize=["at_most_ms"])
def gate(flag, at_most_ms):
    """Spins until the host has written to `flag`, but for at most `at_most_ms` milliseconds of the
    device's own clock."""
    start = globaltimer()
    now = start
    is_open = tl.load(flag, volatile=True)
    while (is_open == 0) & ((now - start) // 1_000_000 < at_most_ms):
        is_open = tl.load(flag, volatile=True)
        now = globaltimer()
