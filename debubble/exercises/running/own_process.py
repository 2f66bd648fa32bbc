"""Runs a test in another process, because its code may crash, leave or change its process.

The tests of a learner's code run this way, all tests of one kata in one process, and so does each
marked test in a process of its own:

    @pytest.mark.own_process
    def test_the_kernel_copies_the_tail(kata, accelerator):
        kata.copy_bytes(source, target, 13)

Set-up, call and teardown run there. Their reports come back, or a report of how the process ended.
On sim the other process is a fork of this one. On CUDA, a fork of a process that has used CUDA
can't use it, so a fork of a fresh interpreter serves until a test fails: then its context may be
spoiled.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from debubble.private.pytest import setup_state_of

from .failure_text import end_text
from .processes.forked import THEIRS, ForkedProcess, prepare
from .processes.messages import Ended
from .processes.one_by_one import OtherProcess
from .under_test import Implementation, chosen_device

MARKER = "own_process"
PROCESS = pytest.StashKey[OtherProcess]()
FORK = pytest.StashKey[tuple[Path, ForkedProcess]]()
"""The running fork, and the file whose tests it runs."""


def is_wanted(item: pytest.Item) -> bool:
    """True if a test should run in another process: one that is marked or runs a learner's code.
    False under a debugger, which needs the terminal of its own process, and on a system that cannot
    fork."""
    if not (_is_marked(item) or item.stash.get(THEIRS, False)) or not hasattr(os, "fork"):
        return False
    return not (item.config.getoption("usepdb", False) or item.config.getoption("trace", False))


def _is_marked(item: pytest.Item) -> bool:
    return item.get_closest_marker(MARKER) is not None


def run(
    item: pytest.Item, seconds: float, implementation: Implementation | None
) -> list[pytest.TestReport]:
    """Runs a test in another process, and returns its reports. `seconds` of CPU time limit its
    call; 0 means no limit."""
    received: list[pytest.TestReport | Ended] = []
    interrupted = (KeyboardInterrupt, pytest.exit.Exception)
    call = pytest.CallInfo.from_call(lambda: _receive(item, seconds, received), "call", interrupted)
    if call.excinfo is not None:
        stop(item.config)
        return [item.ihook.pytest_runtest_makereport(item=item, call=call)]
    reports = [message for message in received if isinstance(message, pytest.TestReport)]
    ended = received[-1]
    # A failure before the end says more than the end does.
    if not isinstance(ended, Ended) or any(report.failed for report in reports):
        return reports
    before = [report for report in reports if report.when == "setup"]
    return [*before, _report_of_end(item, call, ended, seconds, implementation)]


def tear_down(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """Tears down, after a test that ran in another process, what earlier tests set up here and
    `nextitem` does not need. Returns [report] if that fails, else []."""
    leave = setup_state_of(item.session).teardown_exact
    call = pytest.CallInfo.from_call(lambda: leave(nextitem), "teardown")
    report = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return [report] if report.failed else []


def stop(config: pytest.Config) -> None:
    """Stops the processes that run tests for this one. The next test that needs one starts it
    again."""
    if FORK in config.stash:
        config.stash[FORK][1].stop()
        del config.stash[FORK]
    if PROCESS in config.stash:
        config.stash[PROCESS].stop()
        del config.stash[PROCESS]


def _receive(item: pytest.Item, seconds: float, received: list[pytest.TestReport | Ended]) -> None:
    process = _fork_for(item) if _can_fork(item.config) else _other_process(item)
    for message in process.run(item.nodeid, seconds):
        if isinstance(message, Ended) and message.own_error:
            raise RuntimeError(message.own_error)
        received.append(message)
    ended = isinstance(received[-1], Ended)
    if isinstance(process, ForkedProcess) and (ended or _is_marked(item)):
        stop(item.config)


def _can_fork(config: pytest.Config) -> bool:
    """Returns True if a fork of this process can run tests: on sim, unless this is an xdist worker,
    whose threads may hold locks."""
    return chosen_device(config) == "sim" and not hasattr(config, "workerinput")


def _fork_for(item: pytest.Item) -> ForkedProcess:
    stash = item.config.stash
    if FORK in stash and stash[FORK][0] != item.path:
        stop(item.config)
    if FORK not in stash:
        prepare("sim", triton=_is_marked(item))
        stash[FORK] = item.path, ForkedProcess(item.session, on_sim=True)
    return stash[FORK][1]


def _other_process(item: pytest.Item) -> OtherProcess:
    stash = item.config.stash
    if PROCESS not in stash:
        files = dict.fromkeys(found.path for found in item.session.items if is_wanted(found))
        stash[PROCESS] = OtherProcess(item.config, [*files])
    return stash[PROCESS]


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
