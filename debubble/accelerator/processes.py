"""Processes that a program starts inside `as_cuda`: each runs on a sim of its own."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from io import BytesIO
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ..sim.as_cuda.refusing import RunsOtherwise
from ..sim.as_cuda.replacing import replaced
from ..sim.tensor import SimTensor

AsCuda = Callable[[], AbstractContextManager[None]]
FORKED = getattr(multiprocessing.context, "ForkProcess", ())
"""The class of processes that are always forked, which Windows lacks."""
UNSEEN = (
    "a process that the program starts runs on a sim of its own: its waits are not in this report"
)


class OnSim:
    """A call for another process, in which "cuda" means sim before its arguments are unpickled."""

    def __init__(self, call: Callable[[], object], as_cuda: AsCuda) -> None:
        self.call, self.as_cuda = call, as_cuda
        self.kept: list[object] = []
        """The copies on the host of tensors on sim, whose files the other process opens."""

    def __reduce__(self) -> tuple:
        pickled = BytesIO()
        pickler = _Pickler(pickled)
        pickler.dump(self.call)
        self.kept = pickler.kept
        return partial, (_run, self.as_cuda, pickled.getvalue())


class _Pickler(ForkingPickler):
    def __init__(self, file: BytesIO) -> None:
        super().__init__(file)
        self.kept: list[object] = []

    def reducer_override(self, thing: object) -> Any:
        if not isinstance(thing, SimTensor):
            return NotImplemented
        # Without a wait: CUDA passes on a handle of the memory.
        self.kept.append(data := thing.data_on_cpu.detach().clone())
        return thing.made_from(data)


def _run(as_cuda: AsCuda, call: bytes) -> None:
    with as_cuda():
        pickle.loads(call)()


def _is_forked(process: BaseProcess) -> bool:
    if isinstance(process, multiprocessing.Process):
        return multiprocessing.get_start_method() == "fork"
    return isinstance(process, FORKED)


@contextmanager
def processes_on_sim(as_cuda: AsCuda) -> Iterator[None]:
    """Makes processes that are started in the block run under `as_cuda`, if they begin without this
    one's memory (spawn, forkserver). A forked process has this one's sim already."""
    start = BaseProcess.start

    def start_on_sim(self: Any) -> None:
        if not _is_forked(self) and not isinstance(self._target, OnSim | None):
            warnings.warn(UNSEEN, RunsOtherwise, stacklevel=2)
            call = partial(self._target, *self._args, **self._kwargs)
            self._target, self._args, self._kwargs = OnSim(call, as_cuda), (), {}
        start(self)

    with replaced(BaseProcess, {"start": start_on_sim}):
        yield
