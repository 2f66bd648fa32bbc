"""The data of a race: the small language, and the constants of the clock that runs it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict, cast

from debubble.clock.cost import DEFAULT_GPU, CostModel
from debubble.rules.families.products import product

from ..javascript import one_module
from ..timeline.palette import palette

HERE = Path(__file__).parent
SMALL = (256, 256)
"""The shape of the tensor of the word `kernel`."""


class Pair(TypedDict):
    """Two programs that a chapter compares."""

    chapter: str
    name: str
    lesson: str
    before: str
    after: str


def language() -> dict[str, object]:
    """Returns the words of the language, their arguments and bounds, and the ready pairs."""
    return cast("dict[str, object]", json.loads((HERE / "words.json").read_text()))


def pairs() -> list[Pair]:
    """Returns the ready pairs, one for each chapter."""
    return cast("list[Pair]", language()["pairs"])


def facts() -> dict[str, object]:
    """Returns all data of the browser's part: language, colours, the GPU's constants, and the
    device microseconds of its kernels."""
    cost = CostModel.load(DEFAULT_GPU)
    sizes = cast("list[int]", language()["sizes"])
    kernels = {"add": add_us(cost), "mm": {size: product_us(cost, size) for size in sizes}}
    return {
        "language": language(),
        "cost": {**asdict(cost), "times": kernels},
        "palette": palette(),
    }


def add_us(cost: CostModel) -> float | None:
    """Returns the device microseconds of `x + 1` for a SMALL tensor, or None if nothing like it was
    measured."""
    import torch

    x = torch.empty(SMALL, device="meta")
    return cost.measured_us("add.Tensor", (x, 1), (x,), 2 * x.nbytes)


def product_us(cost: CostModel, size: int) -> list[float]:
    """Returns the device microseconds of each kernel of the product of two square matrices."""
    import torch

    matrix = torch.empty(size, size, device="meta")
    count = product((matrix, matrix), {}).kernels
    us = cost.measured_us("mm", (matrix, matrix), (matrix,), 3 * matrix.nbytes)
    return [(us or cost.gemm_us) / count] * count


def source() -> str:
    """Returns the source of the race's view as one module with all its data."""
    return with_facts("race.js")


def with_facts(entry: str) -> str:
    """Returns the module `entry` of the folder `browser`, with all that it imports and the data."""
    # A script element ends at "</", wherever that stands.
    data = json.dumps(facts(), ensure_ascii=False).replace("</", "<\\/")
    return f"const FACTS = {data};\n{one_module(HERE / 'browser' / entry)}"
