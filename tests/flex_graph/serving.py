"""A random scheduler: every step's batch differs, as after a long time of serving."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from solutions.flex_graph.steps.scheduled import ScheduledBatch

SHAPES = ("decode", "prompts", "mixed", "mixed", "one token", "as many as fit")


@dataclass(eq=False)
class Request:
    blocks: list[int] = field(default_factory=list)
    length: int = 0
    """The number of tokens whose keys are in the cache."""
    parent: Request | None = None
    """The request whose first `shared` tokens, in whole blocks, this request shares."""
    shared: int = 0


class Serving:
    """A made-up server: requests arrive at random, take pages of a shuffled pool or share pages of
    other requests, and leave."""

    def __init__(self, limits, seed: int) -> None:
        self.limits, self.rng = limits, np.random.default_rng(seed)
        self.free = self.rng.permutation(np.arange(1, limits.num_gpu_blocks)).tolist()
        self.users = Counter()
        self.running: list[Request] = []

    def next_step(self, max_tokens: int) -> tuple[ScheduledBatch, list[tuple[Request, range]]]:
        """Returns (batch, [(request, positions that it computes)]) with 1 to `max_tokens` tokens.
        The batch's further rows are requests without tokens, and block tables end with garbage."""
        self._let_some_go()
        while not self.running or (
            len(self.running) < self.limits.max_num_seqs and self.rng.random() < 0.6
        ):
            self.running.append(self._new_request())
        shape = self.rng.choice(SHAPES)
        scheduled: list[tuple[Request, range]] = []
        for request in self.rng.permutation(np.array(self.running, object)):
            left = max_tokens - sum(len(positions) for _, positions in scheduled)
            positions = self._positions(request, shape, left)
            if positions and self._take_blocks(request, positions.stop):
                scheduled.append((request, positions))
            if shape == "one token" and scheduled:
                break
        if not scheduled:
            self._let_go(self.running[0])
            return self.next_step(max_tokens)
        for request, positions in scheduled:
            request.length = positions.stop
        return self._batch(scheduled), scheduled

    def _positions(self, request: Request, shape: str, left: int) -> range:
        most = min(left, self.limits.max_model_len - request.length)
        if shape in ("decode", "one token") or (shape == "mixed" and self.rng.random() < 0.5):
            most = min(most, 1)
        elif shape != "as many as fit" and most > 1:
            most = int(self.rng.integers(1, most + 1))
        return range(request.length, request.length + most)

    def _new_request(self) -> Request:
        page = self.limits.block_size
        parents = [request for request in self.running if request.length >= page]
        if not parents or self.rng.random() < 0.6:
            return Request()
        parent = parents[self.rng.integers(len(parents))]
        num_blocks = int(self.rng.integers(1, parent.length // page + 1))
        request = Request(parent.blocks[:num_blocks], num_blocks * page, parent, num_blocks * page)
        self.users.update(request.blocks)
        return request

    def _take_blocks(self, request: Request, length: int) -> bool:
        missing = -(-length // self.limits.block_size) - len(request.blocks)
        if missing > len(self.free):
            return False
        taken = [self.free.pop(self.rng.integers(len(self.free))) for _ in range(missing)]
        self.users.update(taken)
        request.blocks += taken
        return True

    def _let_some_go(self) -> None:
        for request in list(self.running):
            if request.length == self.limits.max_model_len or self.rng.random() < 0.1:
                self._let_go(request)

    def _let_go(self, request: Request) -> None:
        self.running.remove(request)
        self.users.subtract(request.blocks)
        self.free += [block for block in request.blocks if not self.users[block]]

    def _batch(self, scheduled: list[tuple[Request, range]]) -> ScheduledBatch:
        idle = int(self.rng.integers(0, self.limits.max_num_seqs - len(scheduled) + 1))
        longest = max(len(request.blocks) for request, _ in scheduled)
        columns = int(self.rng.integers(longest, self.limits.pages_per_seq + 1))
        shape = (len(scheduled) + idle, columns)
        table = self.rng.integers(0, self.limits.num_gpu_blocks, shape, dtype=np.int32)
        for row, (request, _) in zip(table, scheduled, strict=False):
            row[: len(request.blocks)] = request.blocks
        query_lens = [len(positions) for _, positions in scheduled]
        return ScheduledBatch(
            token_ids=self.rng.integers(0, 64, sum(query_lens), dtype=np.int32),
            query_lens=np.array([*query_lens, *[0] * idle], np.int32),
            seq_lens=np.array([*(r.length for r, _ in scheduled), *[0] * idle], np.int32),
            block_table=table,
        )
