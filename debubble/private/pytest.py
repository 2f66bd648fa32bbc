"""pytest's private names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from . import Names

NAMES = Names(
    "pytest", pytest.__version__, "8.4 to 9.2", lambda end: ImportError(f"debubble needs {end}")
)

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr as TerminalRepr
    from _pytest._io import TerminalWriter as TerminalWriter
else:
    TerminalRepr = NAMES.bind("_pytest._code.code:TerminalRepr")
SetupState = NAMES.bind("_pytest.runner:SetupState")
run_test_protocol = NAMES.bind("_pytest.runner:runtestprotocol")


def setup_state_of(session: pytest.Session) -> Any:
    """Returns the object that knows which fixtures and modules of the session are set up."""
    return session._setupstate


def forget_setup(session: pytest.Session) -> None:
    """Makes the session take nothing for set up."""
    session._setupstate = SetupState()


def leave_out_of_the_summary(report: pytest.TestReport) -> None:
    """Marks a report as one that a debugger has already shown, which pytest shows no second
    time."""
    report._pdbshown = True  # type: ignore[attr-defined]  # pytest's debugger sets it so
