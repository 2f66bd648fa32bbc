"""A detector of waits (chapter 02, optional, hard, 60 minutes).

New changes bring new syncs, so an engine needs a tool that finds them. Here is the beginning of
such a tool. PyTorch shows a TorchDispatchMode each operator before it runs: `func` with its
arguments. The detector below runs every operator, and notes a wait if the operator reads a value.
It misses all other waits.

Let it note the other waits too: copies that block, non-blocking copies that have to block all the
same, results whose size only the device knows, and Python values that are uploaded. It must stay
silent where the host does not wait. The text in `what` of a Wait is yours to choose. Let
`allow_waits` permit the intended waits. In inference mode PyTorch shows a mode `item` and `to` as a
whole, without the operators that they call: there the detector must note the same waits, each once.

You need to know what a TorchDispatchMode is shown of an operator.

Edit this file, then run

    .venv/bin/pytest katas/sync_free/test_sync_detector.py

Stuck?         .venv/bin/debubble hint sync_detector
Start afresh?  .venv/bin/debubble reset sync_detector
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import debubble.accelerator
from katas.sync_free.given import Wait

MACHINERY = (os.path.dirname(torch.__file__), os.path.dirname(debubble.__file__) + os.sep, __file__)


# Yours to edit, from here on.
def calling_line() -> tuple[str, str]:
    """Returns the function and source text of the running line, the innermost outside MACHINERY."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(MACHINERY):
            return frame.name, frame.line or ""
    return "", ""


class SyncDetector(TorchDispatchMode):
    """A dispatch mode that notes in `waits` what makes the host wait in its block (vLLM #41429).

    It notes values or sizes that the host needs, blocking copies between host and device,
    non-blocking copies from or to host memory that is pageable or has holes, and Python values that
    are uploaded. It watches its own thread, except in `allow_waits`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[Wait] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        is_read = func is torch.ops.aten._local_scalar_dense.default
        if is_read and args[0].device.type != "cpu":
            self.waits.append(Wait("a value is read", *calling_line()))
        return func(*args, **kwargs)


@contextmanager
def allow_waits() -> Iterator[None]:
    """Declares the waits in this block intended: no detector of this thread notes them."""
    # No wait is let through yet.
    yield
