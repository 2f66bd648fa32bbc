"""The accesses of a captured graph, each of which every replay makes."""

from __future__ import annotations

from typing import NamedTuple
from weakref import ref

import torch

from ..memory.blocks import Block
from ..memory.tape import Tape


class GraphUse(NamedTuple):
    """An access that each replay of a graph makes to an allocation that other work may use too."""

    block: ref[Block]
    data: torch.Tensor | None
    """The CPU tensor whose elements are all touched, or None if only some of them are."""
    wrote: bool


def uses_of(tape: Tape) -> list[GraphUse]:
    """Returns each distinct use of allocations in a captured tape. Clears the accesses noted at
    these allocations, because captured work was never queued."""
    uses: dict[tuple[object, ...], GraphUse] = {}

    def add(block: Block, data: torch.Tensor, wrote: bool, whole: bool) -> None:
        key = (data.data_ptr(), data.shape, data.stride()) if whole else ()
        use = GraphUse(ref(block), data if whole else None, wrote)
        uses.setdefault((id(block), wrote, *key), use)

    for step in tape.steps:
        for block, data, wrote, whole in step.inputs:
            block.forget_accesses()
            if wrote is not None and (whole or step.chosen is None):
                add(block, data, wrote, whole)
    for result, data in tape.results:
        if (made := result()) is not None:
            made.forget_accesses()
            made.replays = 0
            add(made, data, True, True)
    return list(uses.values())
