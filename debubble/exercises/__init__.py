"""The katas' machinery: catalogue, stubs, the pytest plugin, and the sentences that teach."""

from typing import TYPE_CHECKING

from debubble.lazy import make_lazy

if TYPE_CHECKING:
    from .common.subject import Common, Step
    from .gate import closed_gate
    from .instructions import python_instructions
    from .teaching.claims import expect, expect_equal
    from .teaching.diagnosis import Diagnosis, KataFailure
    from .teaching.find_it import FindIt
    from .teaching.guarded_buffer import GuardedBuffer, guarded_buffer
    from .teaching.inputs import in_a_row, left_as_they_were, part_of, same_objects
    from .teaching.pinning import no_pinned_memory, pinned_memory
    from .teaching.refusals import expect_refusal
    from .teaching.traffic import DeviceTraffic

__all__ = [
    "Common",
    "DeviceTraffic",
    "Diagnosis",
    "FindIt",
    "GuardedBuffer",
    "KataFailure",
    "Step",
    "closed_gate",
    "expect",
    "expect_equal",
    "expect_refusal",
    "guarded_buffer",
    "in_a_row",
    "left_as_they_were",
    "no_pinned_memory",
    "part_of",
    "pinned_memory",
    "python_instructions",
    "same_objects",
]

make_lazy(
    __name__,
    {
        "common.subject": ["Common", "Step"],
        "gate": ["closed_gate"],
        "instructions": ["python_instructions"],
        "teaching.claims": ["expect", "expect_equal"],
        "teaching.diagnosis": ["Diagnosis", "KataFailure"],
        "teaching.find_it": ["FindIt"],
        "teaching.guarded_buffer": ["GuardedBuffer", "guarded_buffer"],
        "teaching.inputs": ["in_a_row", "left_as_they_were", "part_of", "same_objects"],
        "teaching.pinning": ["no_pinned_memory", "pinned_memory"],
        "teaching.refusals": ["expect_refusal"],
        "teaching.traffic": ["DeviceTraffic"],
    },
)
