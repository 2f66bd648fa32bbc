"""Why an action is not allowed in a region without host waits, as a sentence."""

from __future__ import annotations

from collections.abc import Iterable

from .action import Action


def refusal(name: str, actions: Iterable[Action]) -> str | None:
    """The first reason against an operator's actions, or None when the host never waits."""
    for action in actions:
        if action.copy_kind == "h2d_pageable":
            return (
                f"{name} copies {action.nbytes:.0f} bytes from pageable host memory: pin it "
                "(pin_memory=True, contiguous) and copy with non_blocking=True"
            )
        if action.kind == "sync":
            return f"{name} makes the host wait for the device"
        if action.host_blocks:
            return (
                f"{name} copies {action.nbytes:.0f} bytes into pageable host memory, which keeps "
                "the host until the device is done: copy into pinned memory"
            )
    return None
