"""Measures a prefill step of the hybrid model, kernel by kernel and as a graph:
`python -m solutions.engine.measure.prefill_graphs`."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from debubble.accelerator import Accelerator, current
from solutions.measure import benchmark
from solutions.measure.benchmark import StepCost, measure_step
from solutions.measure.variant_table import VariantTable

from ..engine import Engine
from ..model.config import default_prefill_sizes
from ..model.model import Model
from ..optimizations import Optimizations
from .presets import ServingPreset
from .steps import Prefills
from .variants import warm_up

RUNS = 15
TABLE = VariantTable[StepCost](
    f"ms of a prefill step behind {benchmark.LOAD_MS:g} ms of work",
    lambda cost: 1 / cost.host_us,
    {
        "host": lambda cost: f"{cost.host_us / 1e3:.2f}",
        "device": lambda cost: f"{cost.device_us / 1e3:.2f}",
        "idle": lambda cost: f"{cost.idle_share:.1%}",
        "uploads": lambda cost: benchmark.uploads(cost.counts),
        "graphs": lambda cost: str(cost.counts["graph_launches"]),
        "kernels": lambda cost: str(cost.counts["kernels"]),
    },
)


def measure(accelerator: Accelerator, preset: ServingPreset, runs: int) -> dict[str, StepCost]:
    """Returns the cost of a prefill step for two variants, by name: kernel by kernel, and in
    graphs. All five optimisations are on in both."""
    plain = preset.config
    sizes = default_prefill_sizes(plain.limits)
    model = Model(plain, accelerator.device)
    steps = {}
    for name, config in (
        ("kernel by kernel", plain),
        ("in graphs", replace(plain, prefill_sizes=sizes)),
    ):
        engine = Engine(config, Optimizations(), model=model)
        if not accelerator.modelled:
            warm_up(engine)
        steps[name] = Prefills(engine, preset).ready
    costs, _ = measure_step(accelerator, steps, runs, lambda: None)
    return costs


def main(arguments: list[str] | None = None) -> None:
    parser = benchmark.option_parser("engine", __doc__)
    parser.prog = "python -m solutions.engine.measure.prefill_graphs"
    options = benchmark.options_of(parser, arguments)
    accelerator, preset = current(), ServingPreset.hybrid()
    costs = measure(accelerator, preset, 1 if accelerator.modelled else min(options.runs, RUNS))
    Console().print(TABLE.of({"hybrid": {"prefill": costs}}, accelerator))
    if options.output:
        contents = {
            "presets": benchmark.by_preset({"hybrid": preset}, {"hybrid": {"prefill": costs}})
        }
        path = options.output / "engine_prefill_graphs.json"
        benchmark.write_record(path, "engine_prefill_graphs", accelerator, contents)


if __name__ == "__main__":
    main()
