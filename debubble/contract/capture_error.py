"""The error for work that a graph can't capture, with the same sentences on both accelerators."""

from __future__ import annotations

NESTED = "a graph is being captured already: end that capture first"
IS_FULL = "this graph holds a capture already: make a new one with accelerator.graph()"
IS_EMPTY = "nothing was captured: run `with graph.capture(): ...` first"


class CaptureError(RuntimeError):
    """Raised for work that a graph can't capture, for a capture inside another or into a full
    graph, and for the replay of an empty graph."""


def waits(what: str, where: object) -> str:
    return (
        f"{what} at {where} while a graph is captured: nothing runs during a capture, "
        "so the host would wait for ever"
    )
