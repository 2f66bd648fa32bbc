"""Diagnoses code that read or wrote memory outside its buffers."""

from __future__ import annotations

import signal

from debubble.contract.source_line import SourceLine

from .diagnosis import Diagnosis

EXPECTED = "reads and writes within the memory that the code was given"
ADDRESSES = (
    "An address is a number that is not checked. Is it the right tensor's, in bytes, with its "
    "offset added once? Is the size this copy's? Is the tail masked, so that nothing after the "
    "end is read or written?"
)
ALIGNMENT = (
    "A word of 8 bytes is read and written at multiples of 8, a vector of 16 bytes at multiples of "
    "16. Is the offset counted in bytes, and does what is promised of an address hold for it?"
)
LATER = "A kernel runs after its call has returned: the line is where the error was noticed."
DAMAGE = "What was written beside its memory may show later, and elsewhere."
MEMORY = "A size in bytes that is taken for a number of elements asks for several times as much."
ENDINGS: dict[int, tuple[str, str, str]] = {
    signal.SIGSEGV: ("segmentation fault", "it read or wrote an address that is not its own", ""),
    signal.SIGBUS: ("bus error", "it read or wrote an address without memory behind it", ""),
    signal.SIGABRT: ("abort", "a library found its memory damaged, or could not go on", DAMAGE),
}
"""The name, the meaning and a further remark for each signal that ends a process after stray
access."""


def diagnosis_of_error(error: BaseException, line: SourceLine | None) -> Diagnosis | None:
    """Returns the diagnosis of an address error of CUDA or sim, None for any other error. `line` is
    the innermost line of the code under test."""
    message = str(error).strip().partition("\n")[0].rstrip(".")
    misaligned = "misaligned address" in message
    if not isinstance(error, RuntimeError) or not (misaligned or "illegal memory" in message):
        return None
    why = ALIGNMENT if misaligned else ADDRESSES
    later = f"{LATER} " if "CUDA" in message else ""
    did = f"raised {type(error).__name__}: {message}"
    return Diagnosis(EXPECTED, did, _once(line), why=later + why)


def diagnosis_of_end(exit_code: int, line: SourceLine | None) -> Diagnosis:
    """Returns the diagnosis of a process that the code under test ended; a negative `exit_code` is
    the signal that ended it."""
    if exit_code >= 0:
        return Diagnosis(
            expected="the code to return, or to raise an exception",
            did=f"ended the process that ran it, with exit code {exit_code}",
            lines=_once(line),
            why="`os._exit` and the like end Python at once, and nothing after them is run.",
        )
    number = -exit_code
    if number == signal.SIGKILL:
        return Diagnosis(
            expected="the code to return",
            did="was killed (signal 9), as Linux does with a process when memory runs out",
            why=MEMORY,
        )
    name, meaning, more = ENDINGS.get(number, (_shown_signal(number), "it broke off", DAMAGE))
    did = f"ended the process that ran it, by signal {number} ({name}): {meaning}"
    return Diagnosis(EXPECTED, did, _once(line), why=f"{more} {ADDRESSES}".strip())


def _shown_signal(number: int) -> str:
    """Returns the system's name of the signal."""
    return signal.strsignal(number) or "unknown"


def _once(line: SourceLine | None) -> tuple[tuple[SourceLine, int], ...]:
    return ((line, 1),) if line else ()
