"""The other process: collects the tests once, and forks for those that it is asked to run.

It never touches CUDA itself, so that each process that it forks can. On sim a test has a process of
its own, since a stray write into this process's memory would be the next test's. On CUDA, where a
process takes a second to begin, one serves until a test fails: then its context may be spoiled.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import mmap
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import IO, NoReturn

import pytest
import torch
from _pytest.runner import runtestprotocol

import debubble
from debubble.contract import triton_mode

from .. import plugin
from .process_messages import Done, Ended, Request, Setting
from .under_test import GRACE

NOTHING_LEFT = 17
"""The exit code of a process that was asked for no other test."""


def main() -> None:
    """Serves the connection whose file descriptor is the first argument, until it is closed."""
    connection = Connection(int(sys.argv[1]))
    setting: Setting = connection.recv()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prepare(setting.device)
    pytest.main(setting.arguments, plugins=[_Server(connection, setting), *setting.plugins, plugin])


def _prepare(device: str) -> None:
    """What every test would otherwise do again, as far as a fork can take it along."""
    if device == "sim":
        # The first tensor that is filled has PyTorch import what takes a second or two.
        torch.zeros(1, device=debubble.accelerator("sim").device)
    else:
        triton_mode.compile_triton()
    if triton_mode.is_there():
        importlib.import_module("triton.language")


class _Server:
    """A pytest plugin whose loop over the tests takes them from the connection."""

    def __init__(self, connection: Connection, setting: Setting) -> None:
        self.connection = connection
        self.options = setting.options
        self.tests_a_process = 1 if setting.device == "sim" else sys.maxsize
        self.is_busy = mmap.mmap(-1, 1)
        self.has_failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        vars(config.option).update(self.options)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        while True:
            with tempfile.TemporaryFile("w+") as trace:
                process = os.fork()
                if process == 0:
                    self._serve(session, trace)
                _, status = os.waitpid(process, 0)
                exit_code = os.waitstatus_to_exitcode(status)
                if self.is_busy[0]:
                    self.is_busy[0] = False
                    with contextlib.suppress(ConnectionError):  # Nobody wants to know any more.
                        self.connection.send(_ended(session, exit_code, trace))
                elif exit_code:
                    break
        return True

    def _serve(self, session: pytest.Session, trace: IO[str]) -> NoReturn:
        """In the new process. It leaves at once, since what it would clean up may be damaged."""
        exit_code = 1
        try:
            faulthandler.enable(file=trace, all_threads=False)
            self.trace = trace
            exit_code = self._serve_many({item.nodeid: item for item in session.items})
        except BaseException:
            traceback.print_exc(file=trace)
            trace.flush()
        finally:
            os._exit(exit_code)

    def _serve_many(self, items: dict[str, pytest.Item]) -> int:
        for _ in range(self.tests_a_process):
            try:
                request: Request = self.connection.recv()
            except EOFError:
                return NOTHING_LEFT
            self.is_busy[0] = True
            item = items[request.nodeid]
            item.stash[plugin.LIMIT] = request.seconds
            runtestprotocol(item, nextitem=None)
            self.connection.send(Done())
            self.is_busy[0] = False
            if self.has_failed:
                break
        return 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Ends the process where code that is not Python hangs; waits for the GPU, so that an error
        there is this test's."""
        seconds = item.stash[plugin.LIMIT]
        if seconds:
            faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=self.trace)
        try:
            yield
            _wait_for_cuda()
        finally:
            faulthandler.cancel_dump_traceback_later()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.has_failed = self.has_failed or report.failed
        self.connection.send(report)


def _wait_for_cuda() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _ended(session: pytest.Session, exit_code: int, trace: IO[str]) -> Ended:
    capture = session.config.pluginmanager.get_plugin("capturemanager")
    out, err = "", ""
    if capture is not None and capture.is_globally_capturing():
        out, err = capture.read_global_capture()
    trace.seek(0)
    return Ended(exit_code, trace.read(), out, err)


if __name__ == "__main__":
    main()
