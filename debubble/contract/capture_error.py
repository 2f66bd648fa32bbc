"""What can't be done with a graph, or while one is captured; the same sentences everywhere."""

from __future__ import annotations

NESTED = "a graph is being captured already: end that capture first"
IS_FULL = "this graph holds a capture already: make a new one with accelerator.graph()"
IS_EMPTY = "nothing was captured: run `with graph.capture(): ...` first"


class CaptureError(RuntimeError):
    """What a graph can't hold was tried while one was being captured."""


def waits(what: str, where: object) -> str:
    return (
        f"{what} at {where} while a graph is captured: nothing runs during a capture, "
        "so the host would wait for ever"
    )
