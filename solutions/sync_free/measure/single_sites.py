"""Measures steps in a row with each site changed alone, and with all sites but one changed:
`python -m solutions.sync_free.measure.single_sites`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rich.console import Console

from debubble.accelerator import Accelerator, current
from solutions.measure import benchmark
from solutions.measure.benchmark import in_a_row
from solutions.measure.variant_table import VariantTable

from ..model.config import StepConfig
from ..model.model import ConvModel
from ..model.separate_sites import SITES
from ..model.workload import Workload
from .running import RunningVariant, choose_presets

STEPS_IN_A_ROW = {True: 2, False: 12}
"""How many steps are measured in a row, on sim (True) and on a GPU (False)."""
ROUNDS = {True: 1, False: 6}
"""How often each variant's row of steps is measured, on sim (True) and on a GPU (False)."""
Sites = Sequence[str] | None
"""The sites that run the changed code, each by itself; None is all of them with one upload."""


@dataclass(frozen=True)
class SiteCost:
    """The cost of a decode step in a row."""

    loop_us: float
    """Microseconds of the step: the median of several rows."""
    counts: dict[str, int]
    """Timeline.counts() of a recorded step: waits, copies by kind, kernels."""


COLUMNS = VariantTable[SiteCost](
    "steps in a row, sites changed",
    lambda cost: 1 / cost.loop_us,
    {
        "ms": lambda cost: f"{cost.loop_us / 1e3:.2f}",
        "waits": lambda cost: str(cost.counts["host_syncs"]),
    },
)


def main(arguments: list[str] | None = None) -> None:
    parser = benchmark.option_parser("sync_free", __doc__)
    parser.prog = "python -m solutions.sync_free.measure.single_sites"
    options = benchmark.options_of(parser, arguments)
    accelerator = current()
    presets = choose_presets(accelerator, options.quick)
    rounds = min(options.runs, ROUNDS[accelerator.modelled])
    costs = {
        name: {"decode": measure(accelerator, config, rounds)} for name, config in presets.items()
    }
    Console().print(COLUMNS.of(costs, accelerator))
    if options.output:
        contents = {"presets": benchmark.by_preset(presets, costs)}
        path = options.output / "sync_free_sites.json"
        benchmark.write_record(path, "sync_free_sites", accelerator, contents)


def variants() -> dict[str, Sites]:
    """Returns the changed sites of each variant, by its name: no site, one site, all sites but one,
    all sites by themselves, and all with one upload."""
    return {
        "before": (),
        **{f"only {site}": (site,) for site in SITES},
        **{f"all but {site}": tuple(each for each in SITES if each != site) for site in SITES},
        "separate": SITES,
        "after": None,
    }


def measure(accelerator: Accelerator, config: StepConfig, rounds: int) -> dict[str, SiteCost]:
    """Returns the cost of each variant. The variants take turns, and run the same steps."""
    num_steps = STEPS_IN_A_ROW[accelerator.modelled]
    model = ConvModel(config, accelerator.device)
    scheduled = list(Workload(config).steps(3 + rounds * num_steps))
    running = {name: RunningVariant(model, sites, scheduled) for name, sites in variants().items()}
    counts = {name: counts_of(accelerator, variant) for name, variant in running.items()}
    rows = {name: partial(variant.row, num_steps) for name, variant in running.items()}
    loops = in_a_row(accelerator, rows, num_steps, rounds)
    return {name: SiteCost(loops[name], counts[name]) for name in running}


def counts_of(accelerator: Accelerator, variant: RunningVariant) -> dict[str, int]:
    """Returns the counts of a recorded step, which runs after one that warms up."""
    variant.next_step()  # compiles, and lets the allocators grow
    return benchmark.record_step(accelerator, variant.next_step).counts()


if __name__ == "__main__":
    main()
