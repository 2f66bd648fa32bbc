"""A flag for the assertions in kernels: checks of values that only the device has."""

import triton
import triton.language as tl

ASKED = tl.constexpr(triton.knobs.runtime.interpret)
"""True on sim, where a failing `tl.device_assert` raises RuntimeError with its text. For a GPU the
assertions aren't even compiled."""
