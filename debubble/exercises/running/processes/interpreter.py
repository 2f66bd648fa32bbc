"""A fresh Python interpreter that does one task for this process: both ends of its connection.

The interpreter finds the same modules as this process, and has one thread: if it runs beside
others, more threads would only get in each other's way. Threads also harm a process that forks: a
lock that one of them holds stays locked in the fork forever.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
PATIENCE = 2.0
"""Seconds that the interpreter may take to end by itself before it is killed."""
Task = Callable[[Connection], None]
"""An object that can be pickled, and that the interpreter calls with its end of the connection."""


class Interpreter:
    """A fresh interpreter that does a task, until it is closed."""

    def __init__(self, task: Task, **environment: str) -> None:
        self.connection, other = Pipe()
        with other:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(other.fileno())],
                env=_environment() | environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                process_group=0,
            )
        self.connection.send(task)

    def close(self) -> None:
        """Closes the connection, at which the interpreter ends by itself, and kills it if its task
        hangs."""
        self.connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        self.kill()
        self.process.wait()

    def kill(self) -> None:
        """Kills the interpreter and its forks. Another thread that waits for a message gets an
        EOFError."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def _environment() -> dict[str, str]:
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    inherited = {name: text for name, text in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return {**inherited, **ONE_THREAD, "PYTHONPATH": path}


def main() -> None:
    """Does the task that comes over the connection whose file descriptor is the first argument."""
    connection = Connection(int(sys.argv[1]))
    task: Task = connection.recv()
    task(connection)


if __name__ == "__main__":
    main()
