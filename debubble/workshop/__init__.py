"""The katas' machinery: catalogue, stubs, the pytest plugin, and the sentences that teach."""

from typing import TYPE_CHECKING

from debubble.lazy import make_lazy

if TYPE_CHECKING:
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

make_lazy(
    __name__,
    {
        "Diagnosis": "diagnosis",
        "GuardedBuffer": "guarded_buffer",
        "KataFailure": "diagnosis",
        "closed_gate": "gate",
        "expect": "expectation",
        "expect_equal": "values",
        "guarded_buffer": "guarded_buffer",
    },
)
