"""The numbers of running requests by slot, from which each step gathers its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from solutions.flex_graph import Limits, ScheduledBatch

from ..sampling.wishes import WIDTH, numbers_of
from .request import Request


class SlotTables:
    """The numbers of each running request that steps upload, in host arrays with a row for each
    slot. A row changes when its request begins or gets a block, so a step copies rows and loops
    over no request's blocks or sampling parameters."""

    def __init__(self, limits: Limits) -> None:
        self.blocks = np.zeros((limits.max_num_seqs, limits.pages_per_seq), np.int32)
        """[max_num_seqs, pages_per_seq]: the blocks of each request in order, then 0."""
        self.wishes = np.zeros((limits.max_num_seqs, WIDTH), np.int32)
        """[max_num_seqs, WIDTH]: each request's sampling parameters, from `numbers_of`."""
        self.num_known = np.zeros(limits.max_num_seqs, np.int32)
        """[max_num_seqs]: how many tokens of each request the host knew when it began. The device
        samples those after them."""
        self.has_extras = np.zeros(limits.max_num_seqs, bool)
        """[max_num_seqs]: True for each request with extras."""
        self.last: ScheduledBatch | None = None
        """The last step, if it had decodes alone, whose arrays the next step may use. None once a
        request begins."""

    @classmethod
    def of(cls, requests: Iterable[Request], limits: Limits) -> SlotTables:
        """Returns the tables of these requests, which have their slots and blocks already."""
        tables = cls(limits)
        for request in requests:
            tables.begin(request)
        return tables

    def begin(self, request: Request) -> None:
        """Writes the row of a request that has just got its slot."""
        self.last = None
        self.blocks[request.slot] = 0
        self.blocks[request.slot, : len(request.blocks)] = request.blocks
        self.wishes[request.slot] = numbers_of(request.sampling)
        self.num_known[request.slot] = request.num_known
        self.has_extras[request.slot] = request.has_extras

    def add_blocks(self, request: Request, blocks: Sequence[int]) -> None:
        """Adds blocks to the request, and to its row."""
        first = len(request.blocks)
        request.blocks += blocks
        self.blocks[request.slot, first : len(request.blocks)] = blocks
