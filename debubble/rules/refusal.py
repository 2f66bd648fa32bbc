"""Explains in a sentence why an action is not allowed in a region without host waits."""

from __future__ import annotations

from collections.abc import Iterable

from ..clock.action import Action


def refusal(name: str, actions: Iterable[Action]) -> str | None:
    """Returns a sentence that says why a region without host waits refuses an operator, by the
    first of its actions that waits or copies from or to pageable memory. Returns None if none
    does."""
    what = SPOKEN.get(name, name)
    actions = list(actions)
    waits = any(action.kind == "sync" or action.host_blocks for action in actions)
    for action in actions:
        if action.copy_kind == "h2d_pageable":
            held = "makes the host wait" if waits else "keeps the host while the driver copies them"
            return (
                f"{what} uploads {action.nbytes:.0f} bytes from pageable host memory, which "
                f"{held}: use pinned, contiguous memory and non_blocking=True"
            )
        if action.kind == "sync":
            return f"{what} makes the host wait for the device"
        if action.host_blocks:
            return (
                f"{what} brings {action.nbytes:.0f} bytes into pageable host memory, which keeps "
                "the host until the device is done: copy into pinned, contiguous memory"
            )
    return None


SPOKEN = {
    "_local_scalar_dense": "reading a value (item, int, float, bool, an index)",
    "_to_copy": "the copy",
    "copy_": "the copy",
    "lift_fresh": "making a tensor from Python values",
    "index.Tensor": "indexing",
    "index_put_": "assigning to an index",
    "_index_put_impl_": "assigning to an index",
}
