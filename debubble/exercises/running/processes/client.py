"""The client of the other process, used by the pytest that needs it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from pathlib import Path

import pytest

from debubble.accelerator.choice import VARIABLE

from ..time_limit import far_limit
from ..under_test import Implementations, chosen_device
from .environment import process_environment
from .forked import TO_SET_UP
from .messages import Done, Ended, Setting, TestRequest

SERVER = "debubble.exercises.running.processes.server"
OPTIONS = ("impl", "time_limit", "fulltrace", "tbstyle", "showlocals", "verbose")
"""Options of pytest that decide how a test runs and how its failure reads: the other process gets
them too."""
TO_START = 60.0
"""Seconds that the process may take to start, beyond those of its first test."""
PATIENCE = 2.0
"""Seconds that the process may take to end by itself before it is killed."""


class OtherProcess:
    """A fresh interpreter that has collected the tests of some files, and forks to run one of
    them."""

    def __init__(self, config: pytest.Config, files: Sequence[Path]) -> None:
        device = chosen_device(config)
        self.folder = tempfile.TemporaryDirectory()
        self.connection, other = Pipe()
        with other:
            self.process = subprocess.Popen(
                [sys.executable, "-m", SERVER, str(other.fileno())],
                env=_environment(device),
                pass_fds=[other.fileno()],
                process_group=0,
            )
        arguments = [*map(str, files), *_arguments(config), "--device", device]
        arguments += [f"--basetemp={self.folder.name}/tests"]
        options = {name: value for name, value in vars(config.option).items() if name in OPTIONS}
        plugins = config.pluginmanager.get_plugins()
        trials = [found for found in plugins if isinstance(found, Implementations)]
        self.connection.send(Setting(device, arguments, options, trials))

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
        """Ends the other process: closes the connection, at which the process ends by itself, and
        kills it if a test hangs."""
        self.connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.folder.cleanup()


def _environment(device: str) -> dict[str, str]:
    """Returns the environment of the other process. It has PyTorch count GPUs through NVML: by
    default PyTorch calls CUDA for that, and no fork of a process that has called CUDA can use
    it."""
    own = {VARIABLE: device, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    everything = process_environment(**own)
    return {name: text for name, text in everything.items() if name != "PYTEST_ADDOPTS"}


def _arguments(config: pytest.Config) -> list[str]:
    """Returns pytest's arguments for the other process: they give the same tests the same names
    there, and only this pytest reports them."""
    arguments = ["--rootdir", str(config.rootpath), "--override-ini", "addopts="]
    if config.inipath is not None:
        arguments += ["-c", str(config.inipath)]
    arguments += ["-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:nbval"]
    arguments += ["-p", "no:hypothesispytest"]
    arguments += [f"--capture={config.getoption('capture')}"]
    return [*arguments, f"--import-mode={config.getoption('importmode')}"]
