"""Whether Triton kernels of this process are compiled or interpreted: settled before the first one."""

from __future__ import annotations

import os

VARIABLE = "TRITON_INTERPRET"


def interpret_triton() -> None:
    """From now on `@triton.jit` gives kernels that run on the CPU."""
    os.environ[VARIABLE] = "1"


def is_interpreted() -> bool:
    return os.environ.get(VARIABLE) == "1"
