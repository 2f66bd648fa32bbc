"""Runs single tests in forks of another interpreter, which has collected the same tests.

That interpreter never touches CUDA itself, so each of its forks can use CUDA. On sim each test has
its own fork, since a stray write into one process's memory would harm the next test. On CUDA, where
a process takes a second to start, one fork serves until a test fails: then its context may be
spoiled.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from debubble.accelerator.choice import VARIABLE

from ..time_limit import far_limit
from ..under_test import Implementations, chosen_device
from .forked import TO_SET_UP, ForkedProcess, prepare
from .interpreter import Interpreter
from .messages import Done, Ended, TestRequest

OPTIONS = ("impl", "time_limit", "fulltrace", "tbstyle", "showlocals", "verbose")
"""Options of pytest that decide how a test runs and how its failure reads: the other process gets
them too."""
TO_START = 60.0
"""Seconds that the process may take to start, beyond those of its first test."""


class OtherProcess:
    """A fresh interpreter that has collected the tests of some files, and forks to run one of
    them."""

    def __init__(self, config: pytest.Config, files: Sequence[Path]) -> None:
        device = chosen_device(config)
        self.folder = tempfile.TemporaryDirectory()
        arguments = [*map(str, files), *_arguments(config), "--device", device]
        arguments += [f"--basetemp={self.folder.name}/tests"]
        options = {name: value for name, value in vars(config.option).items() if name in OPTIONS}
        plugins = config.pluginmanager.get_plugins()
        trials = [found for found in plugins if isinstance(found, Implementations)]
        # PyTorch counts GPUs through NVML: by default it calls CUDA for that, and no fork of a
        # process that has called CUDA can use it.
        environment = {VARIABLE: device, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
        serve = functools.partial(_serve, device, arguments, options, trials)
        self.interpreter = Interpreter(serve, **environment)
        self.connection = self.interpreter.connection

    def run(self, nodeid: str, seconds: float) -> Iterator[pytest.TestReport | Ended]:
        """Runs a test in a fork of the other process, and yields its reports. Ended is the last
        when the fork did not finish.

        Raises RuntimeError when nothing could be run.
        """
        try:
            self.connection.send(TestRequest(nodeid, seconds))
            while not isinstance(message := self._receive(seconds), Done):
                yield message
        except (EOFError, ConnectionError) as error:
            raise RuntimeError(
                "the process for tests that may crash has ended by itself: what it printed is in "
                "the captured output, or further up with `pytest -s`"
            ) from error

    def _receive(self, seconds: float) -> pytest.TestReport | Ended | Done:
        patience = far_limit(seconds) + TO_START + TO_SET_UP if seconds else None
        if not self.connection.poll(patience):
            raise RuntimeError(
                f"the process for tests that may crash said nothing for {patience:g} s, although "
                f"the test's call may take {seconds:g} s: it was ended"
            )
        return self.connection.recv()

    def stop(self) -> None:
        self.interpreter.close()
        self.folder.cleanup()


def _serve(
    device: str,
    arguments: Sequence[str],
    options: Mapping[str, object],
    plugins: Sequence[object],
    connection: Connection,
) -> None:
    """Collects the same tests in the other interpreter, and runs those that the connection
    requests, until it is closed."""
    prepare(device)
    pytest.main([*arguments], plugins=[_Server(connection, device, options), *plugins])


class _Server:
    """A pytest plugin that runs the tests that the connection asks for, in forks of this process,
    in place of all collected tests."""

    def __init__(self, connection: Connection, device: str, options: Mapping[str, object]) -> None:
        self.connection = connection
        self.on_sim = device == "sim"
        self.options = options

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        vars(config.option).update(self.options)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        fork: ForkedProcess | None = None
        try:
            while True:
                request: TestRequest = self.connection.recv()
                fork = fork or ForkedProcess(session, self.on_sim)
                failed = False
                for message in fork.run(*request):
                    self.connection.send(message)
                    failed = failed or isinstance(message, Ended) or message.failed
                self.connection.send(Done())
                if self.on_sim or failed:
                    fork.stop()
                    fork = None
        except (EOFError, ConnectionError):  # The parent closed the connection: stop.
            if fork is not None:
                fork.stop()
        return True


def _arguments(config: pytest.Config) -> list[str]:
    """Returns pytest's arguments for the other process: they give the same tests the same names
    there, and only this pytest reports them."""
    arguments = ["--rootdir", str(config.rootpath), "--override-ini", "addopts="]
    if config.inipath is not None:
        arguments += ["-c", str(config.inipath)]
    arguments += ["-p", "debubble.exercises.plugin"]
    arguments += ["-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:nbval"]
    arguments += ["-p", "no:hypothesispytest"]
    arguments += [f"--capture={config.getoption('capture')}"]
    return [*arguments, f"--import-mode={config.getoption('importmode')}"]
