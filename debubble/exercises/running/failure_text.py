"""The text of a failure in a kata, written for its learner: the line that matters instead of a
traceback."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
import unittest
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from debubble.contract.host_syncs import HostSyncError
from debubble.contract.source_line import SourceLine
from debubble.private.pytest import TerminalRepr

from ..teaching.diagnosis import Diagnosis, KataFailure, wrap
from ..teaching.stray_access import diagnosis_of_end, diagnosis_of_error
from .cuda_habits import what_to_write
from .processes.messages import Ended
from .time_limit import TimeLimitExceeded, far_limit, still_there
from .under_test import Implementation, LoadError

if TYPE_CHECKING:
    import pytest

    from debubble.private.pytest import TerminalWriter

CHECKS = Path(__file__).parents[1] / "common" / "checks.py"
"""The file of the common checks, which call the code under test as a kata's test does."""
IN_ASCII = str.maketrans(
    dict(zip("█▒░╷│┊─┴┬△▲▽▼◆●→←…·✔", "#=.||:-++^^vv*o><~.v", strict=True)) | {"µ": "u", "×": "x"}
)
"""The characters of a drawn timeline, in ASCII."""
TRACED_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


@dataclass(frozen=True)
class FailureSummary:
    """The text of a failure in pytest's one-line list."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass
class FailureText(TerminalRepr):
    """A failure's text in a report, in place of pytest's traceback."""

    text: str
    ending: str
    taught: bool
    """True if a claim of the kata failed, False for an error in the code itself."""
    ran_too_long: bool = False

    @property
    def reprcrash(self) -> FailureSummary:
        return FailureSummary(self.text.splitlines()[0])

    def brief(self) -> FailureText:
        """Returns a short version for a text that has been printed before."""
        return replace(self, text=f"The same again: {self.text.splitlines()[0]}", ending="")

    def toterminal(self, writer: TerminalWriter) -> None:
        first, *rest = _printable(self.text).splitlines()
        writer.line(first, red=True, bold=True)
        for line in rest:
            writer.line(line)
        if self.ending:
            writer.line()
            writer.line(_printable(self.ending), cyan=True)

    def __str__(self) -> str:
        return f"{self.text}\n\n{self.ending}".strip()


def _printable(text: str) -> str:
    """Returns the text in characters that standard output can encode: with LC_ALL=C pytest would
    write escape codes for a timeline's."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(IN_ASCII).encode("ascii", "replace").decode()
    return text


def failure_text(
    raised: pytest.ExceptionInfo[BaseException], implementation: Implementation, test: Path
) -> FailureText | None:
    """Returns the learner's text for an exception that ended a test, or None when the exception
    does not concern the code under test."""
    error, ending = raised.value, _ending(implementation)
    if isinstance(error, KataFailure):
        return FailureText(str(error), ending, taught=True)
    if isinstance(error, LoadError):
        return FailureText(str(error), ending, taught=False)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(frame, implementation)]
    if isinstance(error, TimeLimitExceeded):
        return _too_long(error.seconds, error.stood_still, own[-1:], implementation)
    diagnosis = diagnosis_of_error(error, _source_line(own[-1:]))
    if diagnosis is not None:
        return FailureText(str(diagnosis), ending, taught=True)
    if own:
        headline = wrap(f"Your code raised {_headline(error)}")
        text = f"{headline}\n\n{_quoted(own[-1], implementation)}"
        instead = what_to_write(error, own[-1])
        notes = " ".join([*getattr(error, "__notes__", ()), instead]).strip()
        text += f"\n\n{wrap(notes)}" if notes else ""
        return FailureText(text, ending, taught=isinstance(error, HostSyncError))
    if isinstance(error, TypeError | AttributeError) and Path(frames[-1].filename) in (
        test,
        CHECKS,
    ):
        text = (
            f"The test could not call your code: {_headline(error)}\n\n"
            f"{_quoted(frames[-1], implementation)}\n\n"
            "Keep the names and the parameters that the exercise came with."
        )
        return FailureText(text, ending, taught=False)
    return None


def refuse_outcome_of_code(outcome: BaseException, implementation: Implementation | None) -> None:
    """Raises KataFailure if the code under test raised `outcome`, an exception that skips the test
    or ends the run."""
    frames = traceback.extract_tb(outcome.__traceback__)
    line = _source_line([frame for frame in frames if _is_own(frame, implementation)][-1:])
    if line is not None:
        others = {unittest.SkipTest: "unittest", KeyboardInterrupt: "Python"}
        whose = next((name for kind, name in others.items() if isinstance(outcome, kind)), "pytest")
        did = f"raised {whose}'s {type(outcome).__name__}, which ends the test"
        why = "A test that doesn't run to its end says nothing of the code."
        expected = "your code to return or raise an error of its own"
        raise KataFailure(Diagnosis(expected, did, ((line, 1),), why=why)) from None


def end_text(ended: Ended, seconds: float, implementation: Implementation | None) -> FailureText:
    """Returns the text for a test whose process was ended; `seconds` is its time limit."""
    frames = (
        traceback.FrameSummary(file, int(line), function)
        for file, line, function in TRACED_FRAME.findall(ended.trace)
    )
    linecache.checkcache()
    innermost = [frame for frame in frames if _is_own(frame, implementation)][:1]
    if ended.computed_too_long:
        return _too_long(seconds, False, innermost, implementation)
    if ended.stood_still:
        return _too_long(far_limit(seconds), True, innermost, implementation)
    diagnosis = diagnosis_of_end(ended.exit_code, _source_line(innermost))
    return FailureText(str(diagnosis), _ending(implementation), taught=True)


def _too_long(
    seconds: float,
    stood_still: bool,
    innermost: list[traceback.FrameSummary],
    implementation: Implementation | None,
) -> FailureText:
    what = implementation.kata.name if implementation else "the test"
    text = f"Time limit: {what} {still_there(seconds, stood_still)}, and was stopped."
    lines = [_quoted(frame, implementation) for frame in innermost] if implementation else []
    where = "".join(f"\n\n{line}" for line in lines)
    question = (
        "Does it wait there for what never comes?"
        if stood_still
        else "Does a loop there never end? If it is only slow, allow it more with "
        "`--time-limit SECONDS`."
    )
    return FailureText(
        f"{text}{where}\n\n{question}", _ending(implementation), taught=False, ran_too_long=True
    )


def _source_line(innermost: list[traceback.FrameSummary]) -> SourceLine | None:
    lines = [SourceLine(frame.filename, _line_number(frame), frame.name) for frame in innermost]
    return lines[0] if lines else None


def _is_own(frame: traceback.FrameSummary, implementation: Implementation | None) -> bool:
    path = Path(frame.filename)
    if implementation is None:
        return False
    if implementation.origin == "solution":
        return path.is_relative_to(implementation.kata.root / "solutions")
    return frame.filename.startswith(str(implementation.path))


def _headline(error: BaseException) -> str:
    """Returns the error as `ZeroDivisionError: division by zero`, with further lines of its
    message."""
    message = str(error).strip()
    return f"{type(error).__name__}: {message}" if message else f"{type(error).__name__}."


def _quoted(frame: traceback.FrameSummary, implementation: Implementation) -> str:
    """Returns the place of a frame and its line of code, with the part that raised underlined if
    Python knows it."""
    path = implementation.kata.relative(Path(frame.filename))
    source = linecache.getline(frame.filename, _line_number(frame)).rstrip("\n")
    text = source.lstrip()
    lines = [f"At {path}, line {frame.lineno}, in {frame.name}:", f"    {text}"]
    first, last = frame.colno, frame.end_colno
    if first is None or last is None or frame.end_lineno != frame.lineno:
        return "\n".join(lines)
    if last - first < len(text):
        shift = len(source) - len(text)
        lines.append(f"    {' ' * (first - shift)}{'^' * (last - first)}")
    return "\n".join(lines)


def _line_number(frame: traceback.FrameSummary) -> int:
    """Returns the frame's line number, or 0 for an instruction that belongs to no line."""
    return frame.lineno or 0


def _ending(implementation: Implementation | None) -> str:
    if implementation is None:
        return ""
    if implementation.origin != "learner":
        return f"This is {implementation.shown_path}, not your code."
    return f"Edit {implementation.shown_path}"
