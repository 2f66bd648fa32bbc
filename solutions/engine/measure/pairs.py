"""Measures a decode step of the hybrid model with two optimisations, beside each of them alone:
`python -m solutions.engine.measure.pairs`."""

from __future__ import annotations

from rich.console import Console

from debubble.accelerator import current
from solutions.measure import benchmark

from ..optimizations import Optimizations
from .presets import ServingPreset
from .step_costs import IN_A_ROW, measure_kind
from .variants import Engines

FIXES = ("pinned_h2d", "flex_full_graph")
"""The two that together make a decode step one graph."""


def main(arguments: list[str] | None = None) -> None:
    parser = benchmark.option_parser("engine", __doc__)
    parser.prog = "python -m solutions.engine.measure.pairs"
    options = benchmark.options_of(parser, arguments)
    accelerator = current()
    preset = ServingPreset.hybrid_on_sim() if accelerator.modelled else ServingPreset.hybrid()
    variants = ("none", *FIXES, str(Optimizations.only(FIXES)), "all")
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
