"""Whether the host may wait for the device: the rule of a region, and the error of breaking it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from .backward_pass import UNDER_WAY, current, learners_line
from .source_line import SourceLine


class HostSyncError(RuntimeError):
    """The host waited, or a copy would make it wait, where that was ruled out."""

    def __init__(self, what: str, source: SourceLine | None) -> None:
        self.what, self.source = what, source
        super().__init__(f"{what} at {source}" if source else what)


Rule = Literal["none", "forbidden", "allowed"]
_rule: ContextVar[Rule] = ContextVar("the rule for host syncs", default="none")
"""Of the innermost region of this context: a new thread, or another task, starts without one; a
backward pass has its caller's."""


@contextmanager
def forbidding_host_syncs() -> Iterator[None]:
    """A region in which they are ruled out; the accelerator must watch for them meanwhile."""
    with _region("forbidden"):
        yield


@contextmanager
def allow_host_sync() -> Iterator[None]:
    """A hole in `no_host_syncs`, for a wait that is meant; `find_host_syncs` lists it apart."""
    with _region("allowed"):
        yield


def syncs_are_forbidden() -> bool:
    return _rule_here() == "forbidden"


def syncs_are_allowed() -> bool:
    """Whether somebody said so; where nobody said anything they are neither."""
    return _rule_here() == "allowed"


def refuse(what: str) -> None:
    raise HostSyncError(what, learners_line())


def _rule_here() -> Rule:
    """A backward pass works in threads of PyTorch's own, by the rule of the thread that waits."""
    rule = _rule.get()
    if rule == "none" and UNDER_WAY:
        running = current()
        while rule == "none" and running is not None:
            rule, running = running.context.get(_rule, "none"), running.outer
    return rule


@contextmanager
def _region(rule: Rule) -> Iterator[None]:
    outer = _rule.set(rule)
    try:
        yield
    finally:
        _rule.reset(outer)
