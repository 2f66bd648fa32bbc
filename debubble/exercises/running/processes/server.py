"""The other process: collects the tests once, and forks for the tests that it is asked to run.

It never touches CUDA itself, so each of its forks can use CUDA. On sim each test has its own fork,
since a stray write into one process's memory would harm the next test. On CUDA, where a process
takes a second to start, one fork serves until a test fails: then its context may be spoiled.
"""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

import pytest

from ... import plugin
from .forked import ForkedProcess, prepare
from .messages import Done, Ended, Setting, TestRequest


def main() -> None:
    """Serves the connection whose file descriptor is the first argument, until it is closed."""
    connection = Connection(int(sys.argv[1]))
    setting: Setting = connection.recv()
    prepare(setting.device)
    pytest.main(setting.arguments, plugins=[_Server(connection, setting), *setting.plugins, plugin])


class _Server:
    """A pytest plugin that runs the tests that the connection asks for, in forks of this process,
    in place of all collected tests."""

    def __init__(self, connection: Connection, setting: Setting) -> None:
        self.connection = connection
        self.setting = setting

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        vars(config.option).update(self.setting.options)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        fork: ForkedProcess | None = None
        on_sim = self.setting.device == "sim"
        try:
            while True:
                request: TestRequest = self.connection.recv()
                fork = fork or ForkedProcess(session, on_sim)
                failed = False
                for message in fork.run(*request):
                    self.connection.send(message)
                    failed = failed or isinstance(message, Ended) or message.failed
                self.connection.send(Done())
                if on_sim or failed:
                    fork.stop()
                    fork = None
        except (EOFError, ConnectionError):  # The parent closed the connection: stop.
            if fork is not None:
                fork.stop()
        return True


if __name__ == "__main__":
    main()
