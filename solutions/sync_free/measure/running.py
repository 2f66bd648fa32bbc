"""The decode steps that are measured: their presets, and variants that run them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from debubble.accelerator import Accelerator
from solutions.common.read_back import ReadBack
from solutions.measure import benchmark

from ..model.config import StepConfig
from ..model.model import ConvModel
from ..model.workload import ScheduledStep
from ..step import DecodeStep, StepOutput

SERVING_BYTES = 30 * 2**30


def choose_presets(accelerator: Accelerator, quick: bool) -> dict[str, StepConfig]:
    presets = {"small": StepConfig.small()}
    if not quick and benchmark.fits(accelerator, SERVING_BYTES):
        presets["serving"] = StepConfig.serving()
    return presets


class RunningVariant:
    """A variant that runs the steps of the workload, one at each call. The constructor runs the
    first step, which is prompts only. `sites` names the changed sites, as for `DecodeStep`."""

    def __init__(
        self, model: ConvModel, sites: Collection[str] | None, scheduled: list[ScheduledStep]
    ) -> None:
        self.step = DecodeStep(model, sites)
        self.scheduled = iter(scheduled)
        self.next_step()

    def next_step(self) -> StepOutput:
        return self.step.run(next(self.scheduled))

    def row(self, num_steps: int) -> Callable[[], None]:
        """Returns a function that runs `num_steps` steps."""
        return partial(self.loop, num_steps)

    def loop(self, num_steps: int) -> None:
        """Runs `num_steps` steps, and reads the sampled tokens of each while the next one runs."""
        last = ReadBack(self.next_step().sampled)
        for _ in range(num_steps - 1):
            sampled = ReadBack(self.next_step().sampled)
            last.read()
            last = sampled
        last.read()
