"""Runs a system's tests on each mutant, in a copy of the tree and a fork each.

The copy's process, `python -m tests.mutants.judging`, imports PyTorch and the instruments once.
The first fork runs all the tests on the source as it is, and notes which reach the mutated
functions and how long they take. Each other fork runs, on one mutant, those that reach it, the
short ones first, until one fails. In the end those that failed run once more on the source as it
is.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn

import pytest
from _pytest.runner import SetupState, runtestprotocol
from hypothesis import Phase, settings

from .in_place import put
from .making import Mutant
from .reach import NAME, instrumented

COPIED = ("debubble", "solutions", "tests", "katas", "conftest.py", "debubble_pytest.py")
QUICK = 2.0
"""The CPU seconds after which a test is too slow to be used."""
AT_MOST = 8.0
"""The CPU seconds that a mutant's tests may take together on the unedited source; the short ones
are chosen."""
AT_FIRST = 12
"""The number of tests in a mutant's first fork: most mutants fail one of them."""
HANGS = 10.0
"""The CPU seconds allowed beyond three times the tests' time on the unedited source."""
IGNORED = ("*__pycache__*", ".*")


@dataclass
class Verdict:
    """The result of one mutant's tests."""

    mutant: Mutant
    asked: int
    """The number of tests that reach the mutant."""
    failed: str = ""
    """The first failed test, or `hangs`; empty if all passed."""


@dataclass
class _Tests:
    """Facts about the tests on the unedited source, by the tests' ids."""

    seconds: dict[str, float] = field(default_factory=dict)
    reached: dict[str, list[int]] = field(default_factory=dict)


def judge(root: Path, mutants: Sequence[Mutant], tests: Sequence[str]) -> list[Verdict]:
    """Returns a verdict on each mutant by the quick tests of these files and folders. Raises
    RuntimeError if a test that fails on a mutant also fails on the unedited source."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name).resolve() / "tree"
        _copy(root, copy)
        task = Path(name) / "task.json"
        task.write_text(json.dumps({"mutants": [list(it) for it in mutants], "tests": [*tests]}))
        command = [sys.executable, "-m", "tests.mutants.judging", str(task)]
        environment = os.environ | {
            "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
            "DEBUBBLE_DEVICE": "sim", "TMPDIR": name,
        }  # fmt: skip
        done = subprocess.run(command, cwd=copy, env=environment, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise RuntimeError(f"the mutants were not judged: it ended with {done.returncode}")
        answers = json.loads(task.with_suffix(".answers").read_text())
    return [Verdict(mutant, **answer) for mutant, answer in zip(mutants, answers, strict=True)]


def _copy(root: Path, copy: Path) -> None:
    """Copies what a mutant may break, and links the rest."""
    copy.mkdir()
    for path in root.iterdir():
        if path.name in COPIED and path.is_dir():
            shutil.copytree(path, copy / path.name, ignore=shutil.ignore_patterns(*IGNORED))
        elif path.name in COPIED:
            shutil.copy(path, copy / path.name)
        elif path.name not in ("my", "build") and not path.name.startswith("."):
            (copy / path.name).symlink_to(path)


def _main(task: Path) -> None:
    from debubble.workshop.running.processes.forked import prepare

    given = json.loads(task.read_text())
    for plugin in entry_points(group="pytest11"):
        if plugin.name not in ("nbval", "cov"):  # slow to load, and not asked for
            plugin.load()
    mutants = [Mutant(*it[:-1], tuple(it[-1])) for it in given["mutants"]]
    root = Path.cwd()
    # The examples are the same in each run, and failing ones are not shrunk.
    settings.register_profile(
        "mutants", phases=(Phase.explicit, Phase.generate), derandomize=True, database=None
    )
    settings.load_profile("mutants")
    prepare("sim")
    importlib.import_module("debubble.workshop.plugin")
    with _changed(root, instrumented(root, mutants)):
        tests = _as_it_is(given["tests"])
    judged = _Judged(root, mutants, tests)
    code = _pytest([*{test.partition("::")[0] for test in tests.seconds}], judged)
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"pytest ends with {code!r}")
    if judged.failing and (wrong := _failed(sorted(judged.failing), tests)):
        raise RuntimeError(f"{wrong} fails on the source as it is")
    task.with_suffix(".answers").write_text(json.dumps(judged.answers))


class _Judged:
    """A pytest plugin that runs the collected tests on mutants instead of the unedited source."""

    def __init__(self, root: Path, mutants: list[Mutant], tests: _Tests) -> None:
        self.root, self.mutants, self.tests = root, mutants, tests
        self.failed_before: dict[str, Counter[str]] = defaultdict(Counter)
        """The tests that failed on mutants of each file: the next mutant gets them first."""
        self.answers: list[dict[str, str | int]] = []
        self.failing: set[str] = set()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        for number, mutant in enumerate(self.mutants):
            asked = self._asked(number, mutant)
            failed = self._failed_in_place(mutant, asked)
            if not failed:
                with _changed(self.root, {mutant.file: mutant.text}):
                    first, others = asked[:AT_FIRST], asked[AT_FIRST:]
                    failed = _failed(first, self.tests) or _failed(others, self.tests)
            self.failed_before[mutant.file][failed] += 1
            self.failing |= {failed} & {*asked}
            self.answers.append({"asked": len(asked), "failed": failed})
            print(f"{number + 1}/{len(self.mutants)} {mutant.file}:{mutant.line} {mutant.edit}: "
                  f"{failed or f'PASSES {len(asked)} tests'}", flush=True)  # fmt: skip
        return True

    def _asked(self, number: int, mutant: Mutant) -> list[str]:
        """Returns the tests that reach the mutant, as many as there is time for."""
        seconds, often = self.tests.seconds, self.failed_before[mutant.file]
        asked = [test for test in seconds if number in self.tests.reached[test]]
        asked.sort(key=lambda test: (-often[test], seconds[test]))
        taken = itertools.accumulate(seconds[test] for test in asked)
        asked = [test for test, until in zip(asked, taken, strict=True) if until <= AT_MOST]
        return [*_by_file(asked[:AT_FIRST]), *_by_file(asked[AT_FIRST:])]

    def _failed_in_place(self, mutant: Mutant, asked: list[str]) -> str:
        """Returns the first failed test, if the mutant can be put into imported code."""
        notes = Path(tempfile.gettempdir()) / "failed.txt"
        notes.write_text("")

        def run() -> None:
            if not put(self.root, mutant):
                return
            for place, test in enumerate(asked):
                if not place or test.partition("::")[0] != asked[place - 1].partition("::")[0]:
                    self.session._setupstate = SetupState()
                gc.collect(1)
                following = self.items[asked[place + 1]] if place + 1 < len(asked) else None
                reports = runtestprotocol(self.items[test], log=False, nextitem=following)
                if any(report.failed for report in reports):
                    notes.write_text(test)
                    return

        how = _in_a_fork(run, _patience(asked, self.tests), anew=False)
        return notes.read_text() or (f"hangs or ends with {how}" if how else "")


def _by_file(tests: Sequence[str]) -> list[str]:
    """Returns the tests grouped by file, since a file's fixtures are set up once, in the time of
    its first test."""
    files = {test: test.partition("::")[0] for test in tests}
    places = {file: place for place, file in enumerate(dict.fromkeys(files.values()))}
    return sorted(tests, key=lambda test: places[files[test]])


def _patience(asked: Sequence[str], tests: _Tests) -> float:
    return HANGS + 3 * sum(tests.seconds[test] for test in asked)


@contextlib.contextmanager
def _changed(root: Path, texts: dict[str, str]) -> Iterator[None]:
    kept = {file: (root / file).read_bytes() for file in texts}
    for file, text in texts.items():
        (root / file).write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        for file, content in kept.items():
            (root / file).write_bytes(content)


def _as_it_is(files: Sequence[str]) -> _Tests:
    """Returns the facts about quick tests that pass on the unedited source."""
    notes = Path(tempfile.gettempdir()) / "as-it-is.json"

    def run() -> None:
        plugin = _Notes()
        signal.signal(signal.SIGPROF, _too_long)
        _pytest([*files], plugin)
        notes.write_text(json.dumps(asdict(plugin.tests)))

    how = _in_a_fork(run, 7200.0)
    if how:
        raise RuntimeError(f"the tests ended with {how} on the source as it is")
    return _Tests(**json.loads(notes.read_text()))


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError


def _failed(asked: Sequence[str], tests: _Tests) -> str:
    """Returns the first of these tests that fails, `hangs`, or ""."""
    if not asked:
        return ""
    notes = Path(tempfile.gettempdir()) / "failed.txt"
    notes.write_text("")

    def run() -> None:
        plugin = _Notes(notes)
        code = _pytest([*asked, "-x"], plugin)
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            notes.write_text(f"pytest ends with {code!r}")

    how = _in_a_fork(run, _patience(asked, tests))
    return notes.read_text() or (f"hangs or ends with {how}" if how else "")


def _pytest(arguments: list[str], plugin: object) -> int:
    quiet = [f"-pno:{name}" for name in ("cacheprovider", "terminal", "xdist")]
    options = ["--capture=no", "--device=sim"]
    return pytest.main([*arguments, *quiet, *options], plugins=[plugin])


def _in_a_fork(run: Callable[[], None], seconds: float, anew: bool = True) -> int:
    """Returns the exit code of a fork, 0 on success. It may take `seconds` of CPU, and four times
    as long in all. With `anew`, tested code and its tests are imported again. Garbage is collected
    only between tests, so that its waits aren't counted in a test."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            import resource

            from debubble.workshop.running.memory import leave_memory_to_others

            gc.disable()
            os.setsid()
            leave_memory_to_others()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            for name in [*sys.modules] if anew else ():
                if name.partition(".")[0] in ("solutions", "tests", "conftest"):
                    del sys.modules[name]
            run()
            code = 0
        finally:
            os._exit(code)
    last = time.monotonic() + 4 * seconds
    while time.monotonic() < last:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            break
        time.sleep(0.02)
    else:
        status = -1
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    if status == -1:
        os.waitpid(process, 0)
    return status


class _Notes:
    """A pytest plugin that notes what each test reaches and how long it takes, and the first
    failure."""

    def __init__(self, failed: Path | None = None) -> None:
        self.tests = _Tests()
        self.failed = failed
        self.reached: set[int] = set()
        setattr(builtins, NAME, self.reached)
        self.of_file: dict[str, set[int]] = defaultdict(set)
        """The mutants that the fixtures of each test file reach."""
        self.started = 0.0
        self.wrong: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        gc.collect(1)
        self.reached.clear()
        self.started = time.process_time()
        result = yield
        seconds = time.process_time() - self.started
        file = item.nodeid.partition("::")[0]
        if item.nodeid not in self.wrong and seconds <= QUICK:
            self.tests.seconds[item.nodeid] = seconds
            self.tests.reached[item.nodeid] = [*self.reached]
        self.of_file[file] |= self.reached
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Ends a test that takes too long on the unedited source, since it won't be used."""
        if self.failed is None:
            signal.setitimer(signal.ITIMER_PROF, QUICK)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        self.reached.clear()
        yield
        self.of_file[item.nodeid.partition("::")[0] + " setup"] |= self.reached

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.skipped:
            self.wrong.add(report.nodeid)
        if report.failed and self.failed is not None and not self.failed.read_text():
            self.failed.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and self.failed is not None:
            self.failed.write_text(f"{report.nodeid} is not collected")

    def pytest_sessionfinish(self) -> None:
        """Adds what a file's shared fixtures reach to all its tests; only the first test sets them
        up."""
        for test, reached in self.tests.reached.items():
            shared = self.of_file[test.partition("::")[0] + " setup"]
            self.tests.reached[test] = sorted({*reached} | shared)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
