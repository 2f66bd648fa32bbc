"""A step's batch: which tokens of which requests run, and where their keys and values lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from ..ranges import MOST_SEQUENCES

PADDING_BLOCK = 0
"""The index of the KV cache block that belongs to no request; it pads the rows of a block table."""


@dataclass(frozen=True)
class Batch:
    """The inputs of a step that attention layers read. Its rows are requests, in order, then
    padding without tokens.

    On the device are query_start_loc [num_seqs + 1] int32, seq_lens [num_seqs] int32, block_table
    [num_seqs, max_blocks] int32 and slot_mapping [num_tokens] int64. On the host are `requests`,
    the indices of these requests in the whole step, and `scheduled`, the absolute positions of each
    request's tokens in this step.
    """

    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor
    requests: range
    scheduled: tuple[range, ...]

    @property
    def num_seqs(self) -> int:
        """The number of rows, padding included."""
        return self.seq_lens.shape[0]

    @property
    def num_tokens(self) -> int:
        return self.slot_mapping.shape[0]

    @property
    def max_query_len(self) -> int:
        return max((len(positions) for positions in self.scheduled), default=0)


class PagedRequests:
    """A paged KV cache's block ids for each request, shuffled as after a long time of serving."""

    def __init__(
        self, num_requests: int, max_tokens: int, block_size: int = 16, seed: int = 0
    ) -> None:
        blocks_per_request = -(-max_tokens // block_size)
        order = np.random.default_rng(seed).permutation(num_requests * blocks_per_request)
        self.blocks = order.reshape(num_requests, blocks_per_request) + PADDING_BLOCK + 1
        self.block_size = block_size

    @property
    def num_blocks(self) -> int:
        """Number of blocks that a KV cache for these requests must have, PADDING_BLOCK included."""
        return self.blocks.size + 1

    def batch(
        self,
        scheduled: Sequence[range],
        device: torch.device,
        *,
        first_request: int = 0,
        num_seqs: int | None = None,
    ) -> Batch:
        """Returns the batch that runs the positions `scheduled[i]` of request first_request + i.
        `num_seqs` pads it to that number of rows.

        Raises ValueError for requests that don't exist, for more requests than rows, and for more
        than MOST_SEQUENCES rows.
        """
        if first_request < 0 or first_request + len(scheduled) > len(self.blocks):
            raise ValueError(
                f"requests {first_request} to {first_request + len(scheduled) - 1}: there are "
                f"{len(self.blocks)}, from 0"
            )
        if num_seqs is not None and num_seqs > MOST_SEQUENCES:
            raise ValueError(f"num_seqs is {num_seqs}: a step has at most {MOST_SEQUENCES}")
        requests = range(first_request, first_request + len(scheduled))
        padding = (num_seqs or len(scheduled)) - len(scheduled)
        if padding < 0:
            raise ValueError(f"{num_seqs} rows do not hold {len(scheduled)} requests")
        query_lens = [len(positions) for positions in scheduled] + [0] * padding
        seq_lens = [positions.stop for positions in scheduled] + [0] * padding
        block_table = np.full((len(query_lens), self.blocks.shape[1]), PADDING_BLOCK)
        block_table[: len(requests)] = self.blocks[requests.start : requests.stop]
        slots = [
            self.blocks[request, position // self.block_size] * self.block_size
            + position % self.block_size
            for request, positions in zip(requests, scheduled, strict=True)
            for position in positions
        ]
        return Batch(
            query_start_loc=on_device(np.cumsum([0, *query_lens]), torch.int32, device),
            seq_lens=on_device(seq_lens, torch.int32, device),
            block_table=on_device(block_table, torch.int32, device),
            slot_mapping=on_device(slots, torch.int64, device),
            requests=requests,
            scheduled=tuple(scheduled),
        )


def on_device(values: ArrayLike, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values, dtype=np.int64), dtype=dtype).to(device)
