"""A table in the terminal: a line a variant, and how many times as fast as the first one it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.box import SIMPLE
from rich.table import Table

from debubble.accelerator import Accelerator

Figure = TypeVar("Figure")
Figures = Mapping[str, Mapping[str, Mapping[str, Figure]]]
"""What was measured, by preset (a model's shape), kind of step, and variant."""


@dataclass(frozen=True)
class VariantTable(Generic[Figure]):
    """How the figures of a benchmark are shown: what is in its columns, and what its ratios are."""

    title: str
    speed: Callable[[Figure], float]
    """What is more where a variant is better: the ratios are those of it to the first variant's."""
    columns: Mapping[str, Callable[[Figure], str]]
    """By heading: what the cell of a figure says."""

    def of(self, figures: Figures[Figure], accelerator: Accelerator) -> Table:
        """The table of these figures, whose title names the accelerator and says of sim that it
        models. The first variant of each kind is the one that the others are compared with."""
        where = accelerator.description  # of sim it says that it models
        how = where if accelerator.modelled else f"measured on {where}"
        table = Table(
            title=f"{self.title}: {how}", box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False
        )
        table.add_column("", no_wrap=True)
        for column in ("ratio", *self.columns):
            table.add_column(column, justify="right", no_wrap=True)
        for preset, kinds in figures.items():
            for kind, variants in kinds.items():
                first = self.speed(next(iter(variants.values())))
                table.add_row(f"{preset}, {kind}")
                for variant, figure in variants.items():
                    cells = (cell(figure) for cell in self.columns.values())
                    table.add_row(f"  {variant}", f"{self.speed(figure) / first:.2f}×", *cells)
        return table
