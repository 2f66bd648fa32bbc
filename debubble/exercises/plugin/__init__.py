"""The katas' pytest plugin: chooses the tests to run, whose code they test, and on which
accelerator. Its other parts are plugins too: `runs` runs the tests, `scoreboard` sums them up."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from ..running import own_process
from ..running.processes.forked import THEIRS
from ..running.time_limit import SECONDS
from ..running.under_test import KataCode, chosen_accelerator, chosen_implementation
from .lookups import CATALOGUES, COURSES, TO_RUN, course_of, kata_of, place_of

if TYPE_CHECKING:
    from debubble.accelerator import Accelerator

pytest_plugins = [
    "debubble.exercises.plugin.common_tests",
    "debubble.exercises.plugin.runs",
    "debubble.exercises.plugin.scoreboard",
]


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
    group.addoption(
        "--stop-at-time-limit",
        action="store_true",
        help="stop once a test has reached its time limit: `debubble watch` does",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CATALOGUES] = {}
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
    return True if kata and course_of(config, kata).leaves_out(kata) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Sorts the katas' tests in the order in which katas are taught, and reduces some katas to a
    single test."""
    katas = {item: kata_of(config, item.path) for item in items}
    for kata in filter(None, katas.values()):
        course_of(config, kata).tests[kata] += 1
    yield
    items.sort(key=lambda item: place_of(config, katas[item]))
    for course in config.stash[COURSES].values():
        wanted = [*course.wanted([(item, katas[item]) for item in items])]
        if len(wanted) < len(items):
            config.hook.pytest_deselected(items=[*set(items).difference(wanted)])
            items[:] = wanted
    known = filter(None, {*katas.values()})
    theirs = {kata for kata in known if course_of(config, kata).is_theirs(kata)}
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
