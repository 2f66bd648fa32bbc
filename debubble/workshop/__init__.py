"""The katas' machinery: catalogue, stubs, the pytest plugin, and the sentences that teach."""

from .diagnosis import Diagnosis, KataFailure
from .expectation import expect
from .gate import closed_gate
from .guarded_buffer import GuardedBuffer, guarded_buffer
from .values import expect_equal

__all__ = [
    "Diagnosis",
    "GuardedBuffer",
    "KataFailure",
    "closed_gate",
    "expect",
    "expect_equal",
    "guarded_buffer",
]
