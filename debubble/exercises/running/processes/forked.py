"""A fork of this process runs tests that this process has collected, and reports how they went.

Whatever the code under test does to its process, this process gives the verdict: if a report is
missing, it reports the end of the fork instead.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import importlib
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Generator, Iterable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, NoReturn

import pytest

from debubble.private.pytest import forget_setup, run_test_protocol

from ..instruments import Instruments
from ..memory import leave_memory_to_others
from ..time_limit import GRACE, far_limit
from .messages import Done, Ended, TestRequest

LIMIT = pytest.StashKey[float]()
"""Seconds of CPU time for the call of a test that runs in a fork, 0 for no limit."""
THEIRS = pytest.StashKey[bool]()
"""True for a test that runs on a learner's code."""
INSTRUMENTS = pytest.StashKey[Instruments]()
ANY_TEST_NEEDS = {"debubble", "numpy", "torch", "triton"}
"""Packages whose modules this process imports for the next fork after one fork has imported
them."""
TO_SET_UP = 120.0
"""Seconds that a test's set-up and teardown may take, beyond the limit of its call."""


def prepare(device: str, triton: bool = True) -> None:
    """Does the imports and set-up that every test would otherwise repeat, as far as a fork can
    inherit them."""
    import torch

    import debubble
    from debubble.contract.packages import triton_mode

    importlib.import_module("debubble.exercises.teaching.claims")
    importlib.import_module("debubble.exercises.teaching.polling")
    if device == "sim":
        # PyTorch imports modules for a second or two when the first tensor is filled.
        torch.zeros(1, device=debubble.accelerator("sim").device)
    else:
        triton_mode.compile_triton()
    if triton and triton_mode.is_there():
        importlib.import_module("triton.language")


@functools.cache
def keep_what_is_there() -> None:
    """Excludes the objects that exist now from garbage collection, here and in each fork. Otherwise
    a collection takes a tenth of a second."""
    gc.collect()
    gc.freeze()


def needed_by_any_test(before: set[str]) -> list[str]:
    """Returns the names of the modules imported since sys.modules was `before` that the next fork
    may need as well."""
    new = [name for name in sys.modules if name not in before]
    return [name for name in new if name.partition(".")[0] in ANY_TEST_NEEDS]


def import_for_the_next(names: Iterable[str]) -> None:
    """Imports, in the process that forks, what its fork has imported, so that the next fork
    inherits it."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


class ForkedProcess:
    def __init__(self, session: pytest.Session, on_sim: bool) -> None:
        self.session = session
        self.on_sim = on_sim
        instruments = session.config.stash.setdefault(INSTRUMENTS, Instruments())
        instruments.note()
        self.trace = tempfile.TemporaryFile("w+")  # noqa: SIM115  # until stop()
        self.connection, others = Pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # A timer that is set in this process is a thread that the fork lacks, and would wait for
        # when it sets its own. This process waits for the fork with a limit of its own.
        faulthandler.cancel_dump_traceback_later()
        keep_what_is_there()
        self.process = os.fork()
        if self.process == 0:
            self.connection.close()
            _serve(session, _Fork(others, self.trace, instruments), on_sim)
        others.close()

    def run(self, nodeid: str, seconds: float) -> Iterator[pytest.TestReport | Ended]:
        """Runs a test in the fork, and yields its reports, then Ended if the fork did not finish
        it; no other test can run after that. Raises RuntimeError if the fork sends no message for
        too long."""
        try:
            self.connection.send(TestRequest(nodeid, seconds))
            while not isinstance(message := self._receive(seconds), Done):
                yield message
            # On CUDA this process must import nothing that could initialize CUDA.
            if self.on_sim:
                import_for_the_next(message.imported)
        except (EOFError, ConnectionError):
            yield self._ended()

    def stop(self) -> None:
        """Kills the process, which has nothing to clean up: its changes end with it."""
        self.connection.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        self.trace.close()

    def _receive(self, seconds: float) -> pytest.TestReport | Ended | Done:
        patience = far_limit(seconds) + TO_SET_UP if seconds else None
        if not self.connection.poll(patience):
            raise RuntimeError(
                f"the process of the test said nothing for {patience:g} s, although the test's "
                f"call may take {seconds:g} s: it was ended"
            )
        return self.connection.recv()

    def _ended(self) -> Ended:
        _, status = os.waitpid(self.process, 0)
        capture = self.session.config.pluginmanager.get_plugin("capturemanager")
        out, err = "", ""
        if capture is not None and capture.is_globally_capturing():
            out, err = capture.read_global_capture()
        self.trace.seek(0)
        return Ended(os.waitstatus_to_exitcode(status), self.trace.read(), out, err)


class _Fork:
    """A pytest plugin of the fork: sends each report, and limits what a test may do."""

    def __init__(self, connection: Connection, trace: IO[str], instruments: Instruments) -> None:
        self.connection = connection
        self.trace = trace
        self.instruments = instruments
        instruments.watch_files()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Ends the process if a test's call computes for too long in code outside Python, or waits
        forever. Waits for the GPU after the call, so that an error there is this test's."""
        seconds = item.stash[LIMIT]
        if seconds:
            faulthandler.dump_traceback_later(far_limit(seconds), exit=True, file=self.trace)
            faulthandler.register(signal.SIGPROF, self.trace, all_threads=False, chain=True)
            signal.setitimer(signal.ITIMER_PROF, seconds + GRACE)
        try:
            yield
            _wait_for_cuda()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Checks after a test of a learner's code that it replaced none of our functions. That is
        after the teardown, when our fixtures have undone their own replacements."""
        yield
        if item.stash.get(THEIRS, False):
            self.instruments.must_be_as_they_were()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self.connection.send(report)
        return report


def _serve(session: pytest.Session, fork: _Fork, on_sim: bool) -> NoReturn:
    """Runs in the fork the tests that the connection asks for. When it is closed, exits without
    cleaning up, since the fork's state may be damaged."""
    exit_code = 1
    try:
        import resource  # there is none where nothing can fork

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.enable(file=fork.trace, all_threads=False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits.
        if "torch" in sys.modules:
            # The threads that PyTorch's operators used in the parent do not exist in the fork.
            sys.modules["torch"].set_num_threads(1)
        if on_sim:
            leave_memory_to_others()
        session.config.pluginmanager.register(fork)
        items = {item.nodeid: item for item in session.items}
        while True:
            request: TestRequest = fork.connection.recv()
            before = {*sys.modules}
            item = items[request.nodeid]
            item.stash[LIMIT] = request.seconds
            # The parent tears down what it has set up before the fork.
            forget_setup(session)
            run_test_protocol(item, log=False, nextitem=None)
            fork.connection.send(Done(needed_by_any_test(before)))
    except EOFError:
        exit_code = 0
    except BaseException:
        traceback.print_exc(file=fork.trace)
        fork.trace.flush()
    finally:
        os._exit(exit_code)


def _wait_for_cuda() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
