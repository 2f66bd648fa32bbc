"""Wraps PyTorch's calls that wait for the device and that none of its modes sees."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

from debubble.contract.backward_pass import learners_line
from debubble.contract.capture_error import CaptureError, waits
from debubble.contract.host_syncs import HOST_SYNC, refuse

from ..trace.marks import marked

Taken = ParamSpec("Taken")
Given = TypeVar("Given")

WAITS = (
    (torch.cuda, "synchronize", "device synchronize"),
    (torch.accelerator, "synchronize", "device synchronize"),
    (torch.cuda.Stream, "synchronize", "stream synchronize"),
    (torch.cuda.Event, "synchronize", "event synchronize"),
)
COPIES = ("copy_", "__getitem__")
"""Methods of `torch.UntypedStorage` with which torch.save and torch.load copy. They are only
marked, because the guard sees the operator inside them."""
_installed = False


def install() -> None:
    """Wraps these waits and copies once a process, so that recordings name their line. The waits
    obey no_host_syncs, and raise CaptureError during a capture before they break it."""
    global _installed
    if _installed:
        return
    _installed = True
    for owner, name, words in WAITS:
        setattr(owner, name, _watched(getattr(owner, name), words))
    for name in COPIES:
        setattr(torch.UntypedStorage, name, _marked(getattr(torch.UntypedStorage, name)))


def _watched(wait: Callable[Taken, Given], words: str) -> Callable[Taken, Given]:
    @functools.wraps(wait)
    def call(*args: Taken.args, **kwargs: Taken.kwargs) -> Given:
        what = f"{words} makes the host wait for the device"
        if torch.cuda.is_current_stream_capturing():
            raise CaptureError(waits(what, learners_line()))
        if HOST_SYNC.is_forbidden():
            refuse(what)
        with marked():
            return wait(*args, **kwargs)

    return call


def _marked(copy: Callable[Taken, Given]) -> Callable[Taken, Given]:
    @functools.wraps(copy)
    def call(*args: Taken.args, **kwargs: Taken.kwargs) -> Given:
        with marked():
            return copy(*args, **kwargs)

    return call
