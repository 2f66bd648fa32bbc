"""Measures a decode step of the hybrid model with each set of the optimisations that change it:
`python -m solutions.engine.measure.pairs`."""

from __future__ import annotations

from itertools import combinations

from rich.console import Console

from debubble.accelerator import current
from solutions.measure import benchmark

from ..optimizations import NAMES, Optimizations
from .presets import ServingPreset
from .step_costs import IN_A_ROW, measure_kind
from .variants import Engines

CHANGED = ("pinned_h2d", "sync_free", "flex_full_graph")
"""The optimisations that change a decode step. Without loads and prefills the others do not."""


def sets_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the variants with each set of these optimisations, smaller sets first,
    and last the variant with all five."""
    sets = [chosen for size in range(len(names) + 1) for chosen in combinations(names, size)]
    return tuple(dict.fromkeys([*(str(Optimizations.only(chosen)) for chosen in sets), "all"]))


def main(arguments: list[str] | None = None) -> None:
    parser = benchmark.option_parser("engine", __doc__)
    parser.prog = "python -m solutions.engine.measure.pairs"
    parser.add_argument(
        "--all-sets", action="store_true", help="measure all 32 sets of the five optimisations"
    )
    options = benchmark.options_of(parser, arguments)
    accelerator = current()
    preset = ServingPreset.hybrid_on_sim() if accelerator.modelled else ServingPreset.hybrid()
    variants = sets_of(NAMES if options.all_sets else CHANGED)
    engines = Engines(preset.config, accelerator, variants)
    runs = 1 if accelerator.modelled else options.runs
    costs = measure_kind(accelerator, preset, engines, "decode", runs, lambda: None)
    steps = {"hybrid": {"decode": costs}}
    Console().print(IN_A_ROW.of(steps, accelerator))
    if options.output:
        contents = {"presets": benchmark.by_preset({"hybrid": preset}, steps)}
        path = options.output / "engine_pairs.json"
        benchmark.write_record(path, "engine_pairs", accelerator, contents)


if __name__ == "__main__":
    main()
