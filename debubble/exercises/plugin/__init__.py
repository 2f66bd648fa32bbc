"""The pytest plugin: chooses whose code is tested and on which accelerator, and writes the
failures."""

from __future__ import annotations

import os
import unittest
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from ..kata_files.catalogue import Catalogue, Kata
from ..running import own_process, run_text
from ..running.course import Course
from ..running.failure_text import FailureText, failure_text, refuse_outcome_of_code
from ..running.processes.forked import LIMIT, THEIRS, prepare
from ..running.time_limit import SECONDS, time_limit
from ..running.under_test import (
    Implementation,
    KataCode,
    chosen_accelerator,
    chosen_device,
    chosen_implementation,
)

if TYPE_CHECKING:
    from debubble.accelerator import Accelerator

CATALOGUES = pytest.StashKey[dict[Path, Catalogue | None]]()
ALREADY_TOLD = pytest.StashKey[set[str]]()
TOO_SLOW = pytest.StashKey[set[Path]]()
TO_RUN = pytest.StashKey[set[str]]()
"""The ids of the tests that this run was asked for."""
COURSES = pytest.StashKey[dict[Path, Course]]()
OUTCOMES = (
    pytest.skip.Exception, unittest.SkipTest, pytest.xfail.Exception, pytest.exit.Exception,
)  # fmt: skip
"""Exceptions by which a test may end itself, and the code under test may not."""
SECOND_CHANCE = 2.0
"""The time limit, in seconds of CPU time, of the other tests of code that has reached its limit
once: a run waits for it in full only once."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("debubble", "debubble: the workbook's katas")
    group.addoption(
        "--impl",
        default="learner",
        metavar="learner|solutions|PATH",
        help="whose code the katas' tests run on: yours (default), ours, or that of a file",
    )
    group.addoption(
        "--all",
        action="store_true",
        dest="all_katas",
        help="continue after the first kata that you have not solved; a kata that you have not "
        "begun runs one test, which fails",
    )
    group.addoption(
        "--device",
        default=None,
        choices=["sim", "cuda", "auto"],
        help="the accelerator; auto (default) is CUDA where there is a GPU, else sim",
    )
    group.addoption(
        "--time-limit",
        default=None,
        type=float,
        metavar="SECONDS",
        help="the CPU time that a kata's test may take; default: "
        f"{SECONDS['sim']:g} on sim, {SECONDS['cuda']:g} on CUDA; 0 means no limit",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CATALOGUES] = {}
    config.stash[ALREADY_TOLD] = set()
    config.stash[TOO_SLOW] = set()
    config.stash[TO_RUN] = set()
    config.stash[COURSES] = {}
    config.addinivalue_line(
        "markers", f"{own_process.MARKER}: runs in a process of its own, since its code may crash"
    )
    config.add_cleanup(lambda: own_process.stop(config))
    device = config.getoption("device", None)
    if device:
        # The first code that needs an accelerator reads it, and so do the processes that tests
        # start.
        os.environ["DEBUBBLE_DEVICE"] = device
    if device == "cuda" and "DEBUBBLE_GPU_QUEUE" in os.environ:
        # This comes before xdist starts workers, so that they share this run's turn and don't wait
        # for each other.
        from debubble.accelerator import lease

        lease.wait_for_turn()
    chosen = config.getoption("impl", "learner")
    if chosen not in ("learner", "solutions") and not Path(chosen).is_file():
        raise pytest.UsageError(
            f"--impl {chosen}: there is no such file; choose learner, solutions or a Python file"
        )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skips the test files of katas that the run leaves out, such as those after the first kata
    that the learner has not begun: they are not even read."""
    kata = kata_of(config, collection_path)
    return True if kata and _course(config, kata).leaves_out(kata) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Sorts the katas' tests in the order in which katas are taught, and reduces some katas to a
    single test."""
    katas = {item: kata_of(config, item.path) for item in items}
    for kata in filter(None, katas.values()):
        _course(config, kata).tests[kata] += 1
    yield
    items.sort(key=lambda item: _place(config, katas[item]))
    for course in config.stash[COURSES].values():
        wanted = [*course.wanted([(item, katas[item]) for item in items])]
        if len(wanted) < len(items):
            config.hook.pytest_deselected(items=[*set(items).difference(wanted)])
            items[:] = wanted
    known = filter(None, {*katas.values()})
    theirs = {kata for kata in known if _course(config, kata).is_theirs(kata)}
    for item in items:
        item.stash[THEIRS] = katas[item] in theirs


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[TO_RUN].update(item.nodeid for item in session.items)


class XdistWorker(Protocol):
    """A pytest-xdist worker, as the main process sees it."""

    @property
    def config(self) -> pytest.Config: ...


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: XdistWorker, ids: Sequence[str]) -> None:
    """Records the tests that an xdist worker has collected."""
    node.config.stash[TO_RUN].update(ids)


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    """Returns the header of a run of katas if xdist workers collect the tests, since this process
    then sees no items; None otherwise."""
    workers = getattr(config.option, "dist", "no") != "no"
    paths = [
        (config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args
    ]
    roots = [folder for path in paths for folder in (path, *path.parents)]
    katas = any((folder / "katas.toml").is_file() for folder in roots)
    return run_text.header(config) if workers and katas else None


def pytest_report_collectionfinish(
    config: pytest.Config, items: list[pytest.Item]
) -> list[str] | None:
    katas = [kata_of(config, item.path) for item in items]
    if not any(katas):
        return None
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and all(katas) and reporter.verbosity == 0:
        reporter.showfspath = False  # all dots in one line instead of a line per file
    return run_text.header(config)


@pytest.fixture(scope="session")
def accelerator(pytestconfig: pytest.Config) -> Accelerator:
    """The accelerator that `--device` chose; the same object for the whole process."""
    return chosen_accelerator(pytestconfig)


@pytest.fixture
def kata(request: pytest.FixtureRequest) -> Iterator[KataCode]:
    """The implementation under test: its functions and classes are attributes. Its code may not
    poll, nor keep the tensors that it makes in each call."""
    code = _code_under_test(request)
    if "accelerator" not in request.fixturenames:
        yield code
        return
    from ..teaching.keeping import must_not_keep
    from ..teaching.polling import polling_is_refused

    with polling_is_refused(request.getfixturevalue("accelerator")):
        yield code
    must_not_keep(code.loaded)


def _code_under_test(request: pytest.FixtureRequest) -> KataCode:
    if hasattr(request, "param"):
        return KataCode(request.param)
    exercise = kata_of(request.config, request.path)
    if exercise is None:
        raise pytest.UsageError(
            f"{request.path} is not the test of a kata in katas.toml: "
            "the `kata` fixture knows a kata by katas/<system>/test_<kata>.py"
        )
    return KataCode(chosen_implementation(request.config, exercise))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    exercise = kata_of(item.config, item.path)
    if exercise is not None and _course(item.config, exercise).leaves_out(exercise):
        return True
    if not own_process.is_wanted(item) or _is_ours(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    implementation = _implementation_of(item)
    reports = own_process.run(item, _seconds(item, implementation), implementation)
    for report in [*reports, *own_process.tear_down(item, nextitem)]:
        if report.failed:
            _note_failure(item)
        _remember(item.config, implementation, report)
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    exercise = kata_of(item.config, item.path)
    if exercise is None:
        return (yield)
    implementation = _implementation_of(item)
    if isinstance(item, pytest.Function) and _runs_on_sim(item):
        # Without this, PyTorch's first imports would count as the code's time, and could be
        # interrupted half way.
        prepare("sim", triton=False)
        if _looks_at_operators(item):
            from debubble.private.torch import compiler

            compiler()
    with time_limit(_seconds(item, implementation), exercise.name):
        # Outside a fork, an interrupt may be the learner's Ctrl-C.
        decisions = (*OUTCOMES, KeyboardInterrupt) if LIMIT in item.stash else OUTCOMES
        try:
            return (yield)
        except decisions as outcome:
            refuse_outcome_of_code(outcome, implementation)
            raise


def _runs_on_sim(item: pytest.Function) -> bool:
    return "accelerator" in item.fixturenames and chosen_device(item.config) == "sim"


def _looks_at_operators(item: pytest.Function) -> bool:
    """True if the test uses a TorchDispatchMode: the first use imports a part of PyTorch that takes
    seconds."""
    from debubble.private.torch import TorchDispatchMode

    named = (item.module.__dict__.get(name) for name in item.function.__code__.co_names)
    return any(isinstance(it, type) and issubclass(it, TorchDispatchMode) for it in named)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    as_it_is = item.config.getoption("fulltrace", False)
    code = (item.funcargs or {}).get("kata") if isinstance(item, pytest.Function) else None
    text = None
    if isinstance(code, KataCode) and call.excinfo is not None and not as_it_is:
        text = failure_text(call.excinfo, code.implementation, item.path)
    if text is not None:
        # pytest's own text takes long to make, and fails if a signal interrupted an instruction
        # without a line.
        vars(item)["repr_failure"] = lambda *arguments, **options: text
    try:
        report = yield
    finally:
        vars(item).pop("repr_failure", None)
    if report.failed:
        _note_failure(item)
        if text is not None:
            report.longrepr = text
        if isinstance(code, KataCode) and not as_it_is and LIMIT not in item.stash:
            _remember(item.config, code.implementation, report)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        run_text.leave_one_kata_to_read(reporter, _katas_run(reporter))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    katas = _katas_run(terminalreporter)
    if katas:
        course = _course(terminalreporter.config, next(iter(katas)))
        run_text.write_scoreboard(terminalreporter, katas, course)


def kata_of(config: pytest.Config, path: Path) -> Kata | None:
    """Returns the kata that the test file at `path` belongs to; None if it is no kata's."""
    catalogue = _catalogue(config, path)
    return catalogue.of_test_file(path) if catalogue else None


def _catalogue(config: pytest.Config, path: Path) -> Catalogue | None:
    """Returns the catalogue of the workbook in which a test file katas/<system>/test_<kata>.py
    lies; None for a file elsewhere."""
    known = config.stash[CATALOGUES]
    root = path.parents[2] if len(path.parents) > 2 else path.parent
    if root not in known:
        known[root] = Catalogue(root) if Catalogue(root).file.is_file() else None
    return known[root]


def _course(config: pytest.Config, kata: Kata) -> Course:
    known = config.stash[COURSES]
    if kata.root not in known:
        known[kata.root] = Course(
            config, _catalogue(config, kata.test_path) or Catalogue(kata.root)
        )
    return known[kata.root]


def _is_ours(item: pytest.Item) -> bool:
    """True for a test on a stub as we wrote it, which is known not to crash: so it needs no other
    process."""
    kata = kata_of(item.config, item.path)
    return kata is not None and _course(item.config, kata).is_shortened(kata)


def _note_failure(item: pytest.Item) -> None:
    kata = kata_of(item.config, item.path)
    if kata is not None:
        course = _course(item.config, kata)
        course.failed = course.failed or kata


def _katas_run(reporter: pytest.TerminalReporter) -> dict[Kata, run_text.Score]:
    """Returns the scores of the katas that this run tested, in teaching order. A kata whose tests
    were all skipped is left out."""
    config = reporter.config

    def kata_of_test(nodeid: str) -> Kata | None:
        return kata_of(config, config.rootpath / nodeid.partition("::")[0])

    scores: dict[Kata, run_text.Score] = {}
    for outcome in ("passed", "failed", "error", "xfailed", "xpassed", "skipped"):
        for report in reporter.stats.get(outcome, []):
            kata = kata_of_test(report.nodeid) if isinstance(report, pytest.TestReport) else None
            if kata is not None and (kata in scores or outcome != "skipped"):
                scores.setdefault(kata, run_text.Score()).reports.append(report)
    for nodeid in config.stash[TO_RUN]:
        kata = kata_of_test(nodeid)
        if kata in scores:
            scores[kata].tests += 1
    return dict(sorted(scores.items(), key=lambda item: _place(config, item[0])))


def _place(config: pytest.Config, kata: Kata | None) -> int:
    """Returns the kata's place in teaching order, from 0; -1 for a test of no kata, so that it
    comes first."""
    if kata is None:
        return -1
    catalogue = _catalogue(config, kata.test_path)
    return catalogue.katas.index(kata) if catalogue else -1


def _implementation_of(item: pytest.Item) -> Implementation | None:
    """Returns the implementation that the `kata` fixture gives to this test; None if the test does
    not use it."""
    exercise = kata_of(item.config, item.path)
    if exercise is None or not isinstance(item, pytest.Function):
        return None
    if "kata" not in item.fixturenames:
        return None
    chosen = item.callspec.params.get("kata") if hasattr(item, "callspec") else None
    if isinstance(chosen, Implementation):
        return chosen
    return chosen_implementation(item.config, exercise)


def _remember(
    config: pytest.Config, implementation: Implementation | None, report: pytest.TestReport
) -> None:
    """Replaces the failure text of a report by a short one if it was already printed, and records
    code that ran too long."""
    text, told = report.longrepr, config.stash[ALREADY_TOLD]
    if not isinstance(text, FailureText):
        return
    if text.ran_too_long and implementation is not None:
        config.stash[TOO_SLOW].add(implementation.path)
    report.longrepr = text.brief() if str(text) in told else text
    told.add(str(text))


def _seconds(item: pytest.Item, implementation: Implementation | None) -> float:
    """Returns how many seconds of CPU time a test may take; 0 means no limit, as for tests of no
    kata."""
    if LIMIT in item.stash:
        return item.stash[LIMIT]
    exercise = kata_of(item.config, item.path)
    if exercise is None:
        return 0.0
    seconds = item.config.getoption("time_limit", None)
    if seconds is None:
        seconds = exercise.time_limit
    if seconds is None:
        on_device = isinstance(item, pytest.Function) and "accelerator" in item.fixturenames
        seconds = SECONDS[chosen_device(item.config) if on_device else "sim"]
    if implementation is not None and implementation.path in item.config.stash[TOO_SLOW]:
        return min(seconds, SECOND_CHANCE)
    return seconds
