"""A flag for the assertions in kernels: checks of values that only the device has."""

import triton
import triton.language as tl

ASKED = tl.constexpr(triton.knobs.runtime.interpret)
"""True on sim, where kernels check values by `tl.device_assert`, which raises RuntimeError with its
text on failure. False on a GPU, for which the assertions aren't even compiled."""
