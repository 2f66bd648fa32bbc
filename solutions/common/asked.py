"""Whether kernels ask what the host can't see: if numbers that lie on the device fit together."""

import triton
import triton.language as tl

ASKED = tl.constexpr(triton.knobs.runtime.interpret)
"""True on sim, where a `tl.device_assert` that doesn't hold is a RuntimeError with its text. For a
GPU such a question isn't even compiled."""
