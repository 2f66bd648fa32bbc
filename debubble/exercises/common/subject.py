"""The inputs of the common checks: a kata's test file defines them once, as `COMMON`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from debubble.accelerator import Accelerator

    from ..running.under_test import KataCode

Call = Callable[..., object]
Likely = str | Callable[[object, object], str]
"""The likely cause of a wrong result, or a function that finds it from the result and the expected
value."""


class Step(NamedTuple):
    """A call of the code under test, with its result."""

    call: str
    """The call as a failure's text shows it: `upload_tokens([1, 2])`."""
    arguments: tuple[object, ...]
    """The caller's objects. Lists, dicts, sets, arrays and host tensors change after a call."""
    expected: object
    """The result: tensors, numbers, None, and tuples, lists or dicts of them."""


@dataclass(frozen=True)
class Common:
    """The factory of inputs from which all common checks of a kata take theirs."""

    make: Callable[[KataCode, Accelerator], Call]
    """Returns the function that each step calls. A kata's class gets a new object here."""
    steps: Callable[[Accelerator], Sequence[Step]]
    """Returns at least three steps, with new objects each time: a smaller step after a larger one,
    an empty step, one of a single item, large numbers, other dtypes and orders."""
    sized: Callable[[Accelerator, int], Step] | None = None
    """Returns a step of n items, by which the work of a call is counted."""
    sizes: tuple[int, int] = (8, 64)
    """The two numbers of items for which the work is compared."""
    changes: tuple[int, ...] = ()
    """The arguments that the code is meant to change in place, by their number from 0."""
    in_order: bool = False
    """True if a step's result depends on the steps before it: the steps then run in this order
    alone."""
    likely: Likely = ""
    stale: Likely = ""
    """The likely cause if a step is wrong after another step."""
    result: str = "what {} returns"
    """The words for the result of a step, whose call takes the place of `{}`."""
    tolerance: float = 0.0
    """The largest absolute difference from the expected floating-point values."""
