"""Metadata built once a step: what all KV groups share, and the slots of each, in one upload."""

from __future__ import annotations

import numpy as np
import torch

from debubble.accelerator import current
from solutions.common.staging_ring import STEPS_IN_FLIGHT, StagingRing

from .batch import BLOCK, Metadata, StepRequests


class SharedBuilder:
    """A builder for all KV groups. Starts and positions are the same for each group, so they are
    computed once; only the slots differ."""

    def __init__(self, most_requests: int, most_tokens: int, groups: int) -> None:
        self._requests, self._tokens = most_requests, most_tokens
        size = most_requests + 1 + (1 + groups) * most_tokens
        self._device = torch.zeros(size, dtype=torch.int32, device=current().device)
        self._ring = StagingRing((size,), torch.int32, STEPS_IN_FLIGHT)
        self._host = np.zeros(size, np.int32)

    def build(self, batch: StepRequests) -> list[Metadata]:
        """Returns the metadata of each group. Its addresses are the same in each step."""
        self.renew(batch)
        starts, positions, slots = self._parts(self._device)
        requests, tokens = len(batch.lengths), batch.num_tokens
        return [Metadata(starts[: requests + 1], positions[:tokens], own[:tokens]) for own in slots]

    @property
    def slots(self) -> torch.Tensor:
        """The slots of each group [G, most_tokens], on the device."""
        return self._parts(self._device)[2]

    def renew(self, batch: StepRequests) -> None:
        """Writes a step's metadata to the device in one upload. Tokens beyond the batch's go to
        slot 0, in a block that belongs to no request. Raises ValueError for too large a batch."""
        requests, tokens = len(batch.lengths), batch.num_tokens
        if requests > self._requests or tokens > self._tokens:
            raise ValueError(
                f"{requests} requests with {tokens} tokens: at most {self._requests} with "
                f"{self._tokens} fit"
            )
        starts, positions, slots = self._parts(torch.from_numpy(self._host))
        ends = np.cumsum(batch.lengths, dtype=np.int32)
        starts[0] = 0
        starts[1 : requests + 1] = torch.from_numpy(ends)
        of = np.repeat(np.arange(requests), batch.lengths)
        where = np.arange(tokens) - np.repeat(ends - batch.lengths, batch.lengths)
        where += batch.cached[of]
        positions[:tokens] = torch.from_numpy(where)
        blocks = batch.tables[:, of, where // BLOCK]
        slots.zero_()
        slots[:, :tokens] = torch.from_numpy(blocks * BLOCK + where % BLOCK)
        self._ring.upload(torch.from_numpy(self._host), self._device)

    def _parts(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns views of the starts, the positions and the slots [G, T]."""
        starts, rest = values[: self._requests + 1], values[self._requests + 1 :]
        return starts, rest[: self._tokens], rest[self._tokens :].view(-1, self._tokens)
