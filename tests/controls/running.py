"""Runs the tests of controls, each in a fork in which one module is the changed one."""

from __future__ import annotations

import contextlib
import linecache
import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from .table import ROOT, Control

SECONDS = 240
"""The longest time that a control may take."""


class Seen(NamedTuple):
    """The result of a control's test on the changed module."""

    failed: bool
    error: str
    """The first line of the error; "" if the test passed."""
    race: str
    """Sim's sentence about the race that it has proved, "" for none."""


class ChangedModule(MetaPathFinder, Loader):
    """An import hook that loads one module from another text. Its lines are quoted from that text
    too, so that Triton compiles the changed kernels."""

    def __init__(self, name: str, path: str, text: str) -> None:
        self.name, self.path, self.text = name, path, text

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        return spec_from_file_location(fullname, self.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        lines = self.text.splitlines(keepends=True)
        linecache.cache[self.path] = (len(self.text), None, lines, self.path)
        exec(compile(self.text, self.path, "exec"), module.__dict__)


class Watching:
    """A pytest plugin that keeps the first failure, and the last races that sim has proved."""

    def __init__(self) -> None:
        self.error = self.race = ""

    def pytest_collection_finish(self) -> None:
        from debubble.sim.clock.device import SimDevice

        stop = SimDevice.stop_recording

        def noted(device: Any) -> Any:
            hazards = stop(device)
            if hazards and not self.error:
                self.race = hazards[0].message
            return hazards

        SimDevice.stop_recording = noted

    def pytest_exception_interact(self, call: pytest.CallInfo[Any]) -> None:
        if call.excinfo and not self.error:
            self.error = call.excinfo.exconly().splitlines()[0]


def run_all(controls: Iterable[Control]) -> Iterator[Seen]:
    """Yields what each control's test did. Call it in a process that has not imported any of the
    changed modules; the tests run on sim."""
    for control in controls:
        # Each fork then inherits what all of them import, but for what its control changes.
        if control.file.startswith("solutions/"):
            _import_what_all_need()
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=_run, args=(control, sender))
        process.start()
        sender.close()
        yield receiver.recv() if receiver.poll(SECONDS) else Seen(False, "it takes too long", "")
        process.kill()
        process.join()


def _import_what_all_need() -> None:
    import torch

    import debubble

    torch.zeros(1, device=debubble.accelerator("sim").device)


def _run(control: Control, sender: Connection) -> None:
    if control.module in sys.modules:
        raise RuntimeError(f"{control.module} was imported before its control could change it")
    sys.meta_path.insert(0, ChangedModule(control.module, str(ROOT / control.file), control.text()))
    watching = Watching()
    options = ["--device", "sim", "-q", "-x", "-p", "no:cacheprovider", "--no-header"]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        status = pytest.main([control.test, *options], plugins=[watching])
    if control.module not in sys.modules or status not in (0, 1):
        sender.send(Seen(False, f"pytest ended with {status} and used no changed module", ""))
        return
    sender.send(Seen(status == 1, watching.error, watching.race))
