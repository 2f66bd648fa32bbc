"""Requests that begin with the tokens of other requests, and share their blocks."""

from __future__ import annotations

import numpy as np

from solutions.flex_graph.steps.limits import Limits
from solutions.flex_graph.steps.workload import Requests


class SharingRequests(Requests):
    def __init__(self, limits: Limits, seed: int = 0) -> None:
        super().__init__(limits, seed)
        self.source_of: dict[int, tuple[int, int]] = {}
        """The shared prefixes: {request: (request whose tokens it begins with, number of these
        tokens)}."""

    def share_prefix(self, source: int, request: int, num_tokens: int) -> None:
        """Makes the new request `request` begin with the first `num_tokens` tokens of `source`, and
        share the blocks of their keys and values. Raises ValueError if `request` has blocks
        already, or if `num_tokens` doesn't fill whole blocks."""
        if request in self.blocks:
            raise ValueError(f"request {request} has blocks already: share before its first batch")
        num_blocks, rest = divmod(num_tokens, self.limits.block_size)
        if rest:
            raise ValueError(
                f"a prefix of {num_tokens} tokens: share whole blocks of {self.limits.block_size}"
            )
        self._allocate(source, num_tokens)
        self.blocks[request] = self.blocks[source][:num_blocks]
        self.source_of[request] = (source, num_tokens)

    def token_ids(self, request: int, positions: range) -> np.ndarray:
        tokens = super().token_ids(request, range(self.limits.max_model_len))
        if request in self.source_of:
            source, shared = self.source_of[request]
            tokens[:shared] = self.token_ids(source, range(shared))
        return tokens[positions.start : positions.stop]
