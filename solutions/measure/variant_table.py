"""A table in the terminal: a line for each variant, with its speed relative to the first one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.box import SIMPLE
from rich.table import Table

from debubble.accelerator import Accelerator

Figure = TypeVar("Figure")
Figures = Mapping[str, Mapping[str, Mapping[str, Figure]]]
"""Measured figures by preset (a model's shape), kind of step, and variant."""


@dataclass(frozen=True)
class VariantTable(Generic[Figure]):
    """The layout of a benchmark's table: its columns, and the speed that its ratios compare."""

    title: str
    speed: Callable[[Figure], float]
    """A number that is higher for a better variant. Ratios divide it by the first variant's."""
    columns: Mapping[str, Callable[[Figure], str]]
    """The text of a figure's cell, by heading."""

    def of(self, figures: Figures[Figure], accelerator: Accelerator) -> Table:
        """Returns the table of these figures. Its title names the accelerator, and says if sim
        models it. The first variant of each kind is the baseline of the ratios."""
        where = accelerator.description  # on sim, the description says that times are modelled
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
