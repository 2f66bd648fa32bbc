"""A remedy, advice and the waits that it is for; and the words and patterns that several share."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ...timeline.holds import HoldKind

UPLOADS: tuple[HoldKind, ...] = ("pageable_upload", "staged_upload")
TO_THE_HOST: tuple[HoldKind, ...] = ("value", "download")


class Remedy(NamedTuple):
    """Advice for the holds that match all fields that are set. The strings other than `instead` and
    `form` are regular expressions."""

    instead: str
    """The advice, which may contain {call} and named groups of `reads`."""
    kinds: tuple[HoldKind, ...] = TO_THE_HOST
    call: str = ""
    """A pattern for PyTorch's whole call, as `rules.calls.describe` names it."""
    operator: str = ""
    """A pattern for the ATen operator's whole name."""
    inside: str = ""
    """A pattern to find in the last two lines of PyTorch or a library: `file:line: text`."""
    through: str = ""
    """A pattern to find in any line of a library between the caller's and the one that waits."""
    reads: str = ""
    """A pattern to find in the statement's text."""
    form: str = ""
    """One of the statement's forms, as listed in `statements.Statement`."""
    in_thread: bool = False
    """True if it applies only to threads other than the one that recorded."""
    of_steps: bool = False
    """True if it only helps a call that waits in each step. A call that waits once may wait."""


UploadRemedy = partial(Remedy, kinds=UPLOADS)
"""A remedy for uploads that wait."""


NUMBERS = r"item|__(int|float|index|bool|complex|format)__|tolist|_local_scalar_dense"
SETUP = (
    "it is set-up and costs no step: leave it as it is, or put it into "
    "`with debubble.allow_host_sync():`"
)
AFTER = (
    "it comes after the last step and costs no step: leave it as it is, or put it into "
    "`with debubble.allow_host_sync():`"
)
ONCE = (
    "it comes once in this run and costs no step: leave it as it is, or put it into "
    "`with debubble.allow_host_sync():`"
)
OF_NO_STEP: dict[str, str] = {"setup": SETUP, "after": AFTER, "once": ONCE}
"""The advice for a call that belongs to no step, by the reason."""
LEAVE = "leave it: "
MEANT = "put it into `with debubble.allow_host_sync():` if it is meant: "
UNKNOWN = (
    "{what} waits each time, and no option against it is known here: call it more rarely, with "
    "several batches at once, or put the call into `with debubble.allow_host_sync():`"
)
