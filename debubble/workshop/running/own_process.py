"""The marker `own_process`: a test whose code may crash the process gets one of its own.

    @pytest.mark.own_process
    def test_the_kernel_copies_the_tail(kata, accelerator):
        kata.copy_bytes(source, target, 13)

Its set-up, call and teardown run there; their reports come back, or a report of how it ended.
"""

from __future__ import annotations

import os

import pytest

from .failure_text import end_text
from .process_client import OtherProcess
from .process_messages import Ended
from .under_test import Implementation

MARKER = "own_process"
PROCESS = pytest.StashKey[OtherProcess]()


def is_wanted(item: pytest.Item) -> bool:
    """Not under a debugger, which has to be where its terminal is, nor where nothing can fork."""
    if item.get_closest_marker(MARKER) is None or not hasattr(os, "fork"):
        return False
    return not (item.config.getoption("usepdb", False) or item.config.getoption("trace", False))


def run(
    item: pytest.Item, seconds: float, implementation: Implementation | None
) -> list[pytest.TestReport]:
    """The reports of a test. `seconds` is the limit for its call, 0 for none."""
    received: list[pytest.TestReport | Ended] = []
    call = pytest.CallInfo.from_call(lambda: _receive(item, seconds, received), "call")
    if call.excinfo is not None:
        stop(item.config)
        return [item.ihook.pytest_runtest_makereport(item=item, call=call)]
    reports = [message for message in received if isinstance(message, pytest.TestReport)]
    ended = received[-1]
    # Whatever had failed before the end says more than the end does.
    if not isinstance(ended, Ended) or any(report.failed for report in reports):
        return reports
    before = [report for report in reports if report.when == "setup"]
    return [*before, _report_of_end(item, call, ended, seconds, implementation)]


def tear_down(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """What earlier tests left set up for this one, in whose place nothing was; its failures."""
    leave = item.session._setupstate.teardown_exact
    call = pytest.CallInfo.from_call(lambda: leave(nextitem), "teardown")
    report = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return [report] if report.failed else []


def stop(config: pytest.Config) -> None:
    """The next test that needs the other process starts it afresh."""
    if PROCESS in config.stash:
        config.stash[PROCESS].stop()
        del config.stash[PROCESS]


def _receive(item: pytest.Item, seconds: float, received: list[pytest.TestReport | Ended]) -> None:
    stash = item.config.stash
    if PROCESS not in stash:
        files = dict.fromkeys(found.path for found in item.session.items if is_wanted(found))
        stash[PROCESS] = OtherProcess(item.config, [*files])
    for message in stash[PROCESS].run(item.nodeid, seconds):
        if isinstance(message, Ended) and message.own_error:
            raise RuntimeError(message.own_error)
        received.append(message)


def _report_of_end(
    item: pytest.Item,
    call: pytest.CallInfo[None],
    ended: Ended,
    seconds: float,
    implementation: Implementation | None,
) -> pytest.TestReport:
    printed = {"Captured stdout call": ended.out, "Captured stderr call": ended.err}
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={name: 1 for name in item.keywords},
        outcome="failed",
        longrepr=end_text(ended, seconds, implementation),
        when="call",
        sections=[(name, text) for name, text in printed.items() if text],
        duration=call.duration,
        start=call.start,
        stop=call.stop,
    )
