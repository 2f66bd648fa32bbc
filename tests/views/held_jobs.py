"""An executor whose jobs run when the test decides, and a run that needs no accelerator."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future

from debubble.views.dashboard.run import Failure, Run
from tests.timeline.recordings import transformer_step

TOGGLES = {"pinned": "One pinned upload", "graph": "One graph"}
SLIDERS = {"batch": (1, 4, 16), "layers": (2, 8)}


class HeldJobs(Executor):
    """An executor that runs each job at once. Once `held` is set it keeps jobs until `finish` is
    called."""

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
        """Runs the oldest kept job and sets its result. With `as_unwanted` it isn't run: its result
        is that it ended early."""
        future, job, args = self._waiting.pop(0)
        future.set_result(Failure("ended", unwanted=True) if as_unwanted else job(*args))


def run(on: frozenset[str], values: dict[str, int]) -> Run:
    """Returns a made-up run of a dashboard, with more uploads for more layers, or one upload with
    "pinned" on. Raises ValueError for "graph" with a batch of 16."""
    if "graph" in on and values["batch"] == 16:
        raise ValueError("a graph of 16 requests\ndoes not fit")
    timeline = transformer_step(0 if "pinned" in on else 4, values["layers"])
    step = timeline.span / 1e6
    return Run(timeline, {"tokens/s": values["batch"] / step, "step ms": step * 1e3}, "made up")
