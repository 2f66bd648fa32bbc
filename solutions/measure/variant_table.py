"""A table of what each variant reaches, and how many times as much as the first one that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.box import SIMPLE
from rich.table import Table

from debubble.accelerator import Accelerator

Figure = TypeVar("Figure")
Figures = Mapping[str, Mapping[str, Mapping[str, Figure]]]
"""By preset, by kind, by variant."""


@dataclass(frozen=True)
class VariantTable(Generic[Figure]):
    title: str
    speed: Callable[[Figure], float]
    """What the ratios are of."""
    columns: Mapping[str, Callable[[Figure], str]]
    """A cell of a figure, by heading."""

    def of(self, figures: Figures[Figure], accelerator: Accelerator) -> Table:
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
