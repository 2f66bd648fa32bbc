"""Finds advice for a call that makes the host wait, by the call and the text of its statement."""

from __future__ import annotations

import re
from typing import Literal

from ..contract.source_line import SourceLine
from ..timeline.holds import HoldKind, HostKind
from .advice import REMEDIES
from .advice.by_text import BY_THE_TEXT
from .advice.remedy import LEAVE, MEANT, OF_NO_STEP, UNKNOWN, Remedy
from .advice.set_up import OF_SETUP
from .statements import Statement, statement_at

Apart = Literal["setup", "after", "once"] | None
"""The reason why a finding is none of the steps': set-up, after the last step, or seen once."""
THIN = r"nn/functional\.py|utils/tensorboard/"
"""A pattern for files of PyTorch that only pass the caller's values on."""


def may_stay(instead: str | None) -> bool:
    """Returns True if advice says that a wait is mostly meant, or that it happens once."""
    stays = OF_NO_STEP.values()
    return instead is not None and (
        MEANT in instead or instead.startswith(LEAVE) or instead in stays
    )


def is_of_libraries(remedy: Remedy) -> bool:
    """Returns True if a remedy is for lines of PyTorch or a library, and not of the caller."""
    return bool(remedy.inside or remedy.through)


def instead_of(
    kind: HoldKind | HostKind,
    call: str | None,
    operator: str | None,
    source: SourceLine | None,
    apart: Apart = None,
    in_thread: bool = False,
) -> str | None:
    """Returns what to write instead, or None if no specific advice is known. `apart` says that the
    call belongs to no step, or happened once in a run of several steps. Of a library's line the
    user can't change the text, so advice by its words is left out."""
    inside = [line.in_library for line in source.inside] if source else []
    code = source.outside_pytorch if source else None
    library = code.inside[-1] if code and code.inside else None
    statement = statement_at(library or code)
    own = statement_at(code._replace(inside=())).text if library and code else ""
    # The text of PyTorch's own code says nothing about the user's, so only remedies with `inside`
    # apply to a wait in it. A wait in a thin wrapper still counts as the caller's.
    by_pytorch = bool(source and source != code) and not re.search(THIN, inside[-1])
    for remedy in REMEDIES:
        if (
            kind not in remedy.kinds
            or (by_pytorch and not is_of_libraries(remedy) and remedy not in OF_SETUP)
            or (library and not is_of_libraries(remedy) and not may_stay(remedy.instead))
            or (remedy.form and remedy.form not in statement.forms)
            or (remedy.through and not re.search(remedy.through, "\n".join(inside)))
            or (remedy.in_thread and not in_thread)
        ):
            continue
        read = re.search(remedy.reads, statement.text) or re.search(remedy.reads, own)
        if (
            read
            and (not remedy.call or re.fullmatch(remedy.call, call or operator or ""))
            and (not remedy.operator or re.fullmatch(remedy.operator, operator or ""))
            and (not remedy.inside or any(re.search(remedy.inside, line) for line in inside[-2:]))
        ):
            if apart and _is_no_use(remedy, apart, statement):
                return OF_NO_STEP[apart]
            names = {"call": (call or "").removeprefix("linalg_"), **read.groupdict()}
            return _filled(remedy.instead, names)
    if apart:
        return OF_NO_STEP[apart]
    if source and source.inside:
        return UNKNOWN.format(what=_library_call(library or source.inside[-1]))
    return None


def _library_call(line: SourceLine) -> str:
    library = line.in_library.partition("/")[0].partition(":")[0]
    return f"`{line.function.partition('.<locals>')[0]}` of {library}"


def _is_no_use(remedy: Remedy, apart: str, statement: Statement) -> bool:
    """Returns True if a remedy helps steps only, and the call belongs to none. A sum that grows
    outside of the set-up counts as one of a loop's, which may have run once."""
    if may_stay(remedy.instead) or (apart != "setup" and "augmented" in statement.forms):
        return False
    return apart == "after" or remedy.of_steps or remedy in BY_THE_TEXT


def _filled(advice: str, names: dict[str, str]) -> str:
    """Returns the advice with the values of its {names}. Other braces stay."""
    return re.sub(r"\{(\w+)\}", lambda name: names[name[1]], advice)
