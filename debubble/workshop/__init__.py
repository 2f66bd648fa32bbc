"""The katas' machinery: catalogue, stubs, the pytest plugin, and the sentences that teach."""

from typing import TYPE_CHECKING

from debubble.lazy import make_lazy

if TYPE_CHECKING:
    from .gate import closed_gate
    from .teaching.claims import expect, expect_equal
    from .teaching.diagnosis import Diagnosis, KataFailure
    from .teaching.guarded_buffer import GuardedBuffer, guarded_buffer

__all__ = [
    "Diagnosis",
    "GuardedBuffer",
    "KataFailure",
    "closed_gate",
    "expect",
    "expect_equal",
    "guarded_buffer",
]

make_lazy(
    __name__,
    {
        "Diagnosis": "teaching.diagnosis",
        "GuardedBuffer": "teaching.guarded_buffer",
        "KataFailure": "teaching.diagnosis",
        "closed_gate": "gate",
        "expect": "teaching.claims",
        "expect_equal": "teaching.claims",
        "guarded_buffer": "teaching.guarded_buffer",
    },
)
