"""An executor whose jobs run when the test decides, and a run that needs no accelerator."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future

from debubble.views.dashboard.run import Failure, Run
from tests.timeline.recordings import transformer_step

TOGGLES = {"pinned": "One pinned upload", "graph": "One graph"}
SLIDERS = {"batch": (1, 4, 16), "layers": (2, 8)}


class HeldJobs(Executor):
    """An executor that runs a job at once until `held` is set, and then keeps it until `finish`."""

    def __init__(self) -> None:
        self.held = False
        self.begun = self.ended_early = 0
        self._waiting: list[tuple[Future, Callable, tuple]] = []

    def submit(self, job, /, *args):
        self.begun += 1
        self._waiting.append((future := Future(), job, args))
        if not self.held:
            self.finish()
        return future

    def end_early(self) -> None:
        self.ended_early += 1

    def finish(self, as_unwanted: bool = False) -> None:
        """Finishes the oldest waiting job; with `as_unwanted`, as if it had ended early."""
        future, job, args = self._waiting.pop(0)
        future.set_result(Failure("ended", unwanted=True) if as_unwanted else job(*args))


def run(on: frozenset[str], values: dict[str, int]) -> Run:
    """Returns a run with more uploads for more layers, unless "pinned" is on. Raises ValueError for
    a graph of 16 requests."""
    if "graph" in on and values["batch"] == 16:
        raise ValueError("a graph of 16 requests\ndoes not fit")
    timeline = transformer_step(0 if "pinned" in on else 4, values["layers"])
    step = timeline.span / 1e6
    return Run(timeline, {"tokens/s": values["batch"] / step, "step ms": step * 1e3}, "made up")
