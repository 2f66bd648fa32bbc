"""Requests as a scheduler knows them: their tokens, and the blocks that their lengths need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from .limits import Limits
from .scheduled import ScheduledBatch

ANY_VOCABULARY = 64
"""Size of the smallest vocabulary of any model here: token ids below it are valid in all models."""


class Requests:
    """A source of batches of requests 0, 1, 2, …. A request's tokens follow from the seed alone. It
    gets blocks when its length needs them, in an order as after a long time of serving. Another
    seed gives other requests, in other blocks of the same cache."""

    def __init__(self, limits: Limits, seed: int = 0, vocab_size: int = ANY_VOCABULARY) -> None:
        self.limits, self.seed, self.vocab_size = limits, seed, vocab_size
        self.random = np.random.default_rng(seed)
        self.free = list(self.random.permutation(np.arange(1, limits.num_gpu_blocks)))
        self.blocks: dict[int, list[int]] = {}

    def batch(self, scheduled: Sequence[range] | Mapping[int, range]) -> ScheduledBatch:
        """Returns the batch of a step that runs these positions of each request, by request number.
        Requests without positions are left out, and rows are in the order given. After a request's
        blocks its table has garbage: blocks of other requests, and numbers that are no block.

        Raises ValueError if blocks or positions run out.
        """
        by_request = scheduled if isinstance(scheduled, Mapping) else dict(enumerate(scheduled))
        by_request = {request: part for request, part in by_request.items() if len(part)}
        for request, part in by_request.items():
            self._allocate(request, part.stop)
        return ScheduledBatch(
            token_ids=_joined(self.token_ids(*item) for item in by_request.items()),
            query_lens=_int32(map(len, by_request.values())),
            seq_lens=_int32(part.stop for part in by_request.values()),
            block_table=self._block_table(by_request),
        )

    def token_ids(self, request: int, positions: range) -> np.ndarray:
        """Returns the token ids of a request at consecutive positions, [len(positions)] int32."""
        random = np.random.default_rng([self.seed, request])
        size = self.limits.max_model_len
        tokens = random.integers(self.vocab_size, size=size, dtype=np.int32)
        return tokens[positions.start : positions.stop]

    def _allocate(self, request: int, num_tokens: int) -> None:
        if num_tokens > self.limits.max_model_len:
            raise ValueError(
                f"request {request} would have {num_tokens} tokens: max_model_len is "
                f"{self.limits.max_model_len}"
            )
        blocks = self.blocks.setdefault(request, [])
        missing = self.limits.pages_of(num_tokens) - len(blocks)
        if missing > len(self.free):
            raise ValueError(
                f"request {request} needs {missing} more blocks, and {len(self.free)} of "
                f"{self.limits.num_gpu_blocks} are free: give the limits more num_gpu_blocks"
            )
        blocks += [self.free.pop() for _ in range(missing)]

    def _block_table(self, by_request: Mapping[int, range]) -> np.ndarray:
        """Returns the block table of these requests, [R, pages_per_seq] int32: a row for each
        request, with garbage after its blocks."""
        num_blocks, shape = self.limits.num_gpu_blocks, (len(by_request), self.limits.pages_per_seq)
        table = self.random.integers(num_blocks, size=shape, dtype=np.int32)
        no_block = (-1, num_blocks, np.iinfo(np.int32).max, np.iinfo(np.int32).min)
        is_none = self.random.random(shape) < 0.5
        table[is_none] = self.random.choice(_int32(no_block), is_none.sum())
        for row, (request, part) in zip(table, by_request.items(), strict=True):
            used = self.limits.pages_of(part.stop)
            row[:used] = self.blocks[request][:used]
        return table


def _int32(numbers: Iterable[int]) -> np.ndarray:
    return np.fromiter(numbers, np.int32)


def _joined(arrays: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.int32), *arrays])
