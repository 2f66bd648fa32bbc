"""What a graph reads of each step: arrays at addresses that stay, written by one upload."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from solutions.common.packed_upload import places_of
from solutions.common.staging_ring import StagingRing

ALIGNMENT = 32
"""Numbers. Every array starts at a multiple of it, 128 bytes."""


class PersistentArrays:
    """int32 arrays on the device, each as long as any step needs it. A captured graph may keep
    their addresses: every step is written to the same ones (vLLM #36298)."""

    def __init__(
        self, sizes: Mapping[str, int], device: torch.device, steps_in_flight: int = 2
    ) -> None:
        """`sizes`: how many numbers each array has, by its name; zeros at first. As many steps as
        `steps_in_flight` may be queued before an upload waits for the first of them."""
        self.places, total = places_of(sizes, ALIGNMENT)
        self.numbers = torch.zeros(total, dtype=torch.int32, device=device)
        self._ring = StagingRing((total,), torch.int32, steps_in_flight)

    def __getitem__(self, name: str) -> torch.Tensor:
        """The whole array: a view, the same for all steps."""
        return self.numbers[self.places[name]]

    def upload(self, step: Mapping[str, tuple[np.ndarray, int | None]]) -> None:
        """Writes a step to the arrays by one pinned upload that nobody waits for.

        `step` has for each array its first numbers, at most all of them, as integers on the host
        that may be changed at once; and what the rest of it is filled with, every time: None where
        nobody reads the rest.
        """
        packed = np.zeros(len(self.numbers), np.int32)
        end = 0
        for name, place in self.places.items():
            values, padding = step[name]
            array = packed[place]
            array[: len(values)] = values
            end = place.start + len(values)
            if padding is not None:
                array[len(values) :] = padding
                end = place.stop
        # Behind `end` is only what nobody reads.
        self._ring.upload(torch.from_numpy(packed[:end]), self.numbers[:end])
