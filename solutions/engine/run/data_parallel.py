"""Ranks of data parallelism, which step together: in every step each rank learns what the other
ranks run."""

from __future__ import annotations

from collections.abc import Sequence

from solutions.flex_graph.steps.limits import size_for
from solutions.sync_free import DataParallelGroup, agreement_of

from ..requests.step_batch import StepBatch
from .sides import RunAr

EAGER, GRAPH = 0, 1
"""The ways in which a rank runs its step. All ranks take the smallest number that any of them
proposes."""


class DataParallelRanks:
    """This rank's view of data parallelism, in which every rank has the whole model, and requests
    of its own."""

    def __init__(self, group: DataParallelGroup, run_ar: RunAr) -> None:
        self.group, self.run_ar = group, run_ar
        self.expect_work()

    def expect_work(self) -> None:
        """Assumes that other ranks have work, until the next step tells."""
        self.others_have_work = self.group.size > 1

    def rows_of_all(
        self, batch: StepBatch | None, capture_sizes: Sequence[int], has_work: bool
    ) -> int:
        """Returns the number of rows that every rank pads its decodes to, so that all replay the
        same graph; 0 if one of the ranks runs eagerly. A rank without a batch takes part too;
        `has_work` keeps the other ranks stepping while this rank has requests that can't run
        yet."""
        num_tokens = batch.graph_size if batch else 0
        size = size_for(num_tokens, capture_sizes) if batch and batch.is_decode else None
        mode = EAGER if batch and size is None else GRAPH
        padded = max(size or 0, num_tokens, int(has_work))
        with self.group.answered_in_time():
            state = self.run_ar(False, num_tokens, padded, mode, self.group).read()
        agreement = agreement_of(state)
        self.others_have_work = agreement.num_tokens > 0
        return agreement.num_tokens if agreement.cudagraph_mode == GRAPH else 0
