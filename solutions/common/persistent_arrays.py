"""Arrays that a graph reads in each step: at fixed addresses, written by one upload."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from solutions.common.packed_upload import places_of
from solutions.common.staging_ring import StagingRing

ALIGNMENT = 32
"""Numbers of int32. Every array starts at a multiple of it, which is 128 bytes."""


class PersistentArrays:
    """Arrays of int32 on the device, each as long as any step needs it. Every step is written to
    the same addresses, so a captured graph may keep them (vLLM #36298)."""

    def __init__(
        self, sizes: Mapping[str, int], device: torch.device, steps_in_flight: int = 2
    ) -> None:
        """Allocates the arrays, filled with zeros. `sizes` is the length of each array, by its
        name. Up to `steps_in_flight` steps are queued without a wait; an upload after them may
        wait for the first of them."""
        self.places, total = places_of(sizes, ALIGNMENT)
        self.numbers = torch.zeros(total, dtype=torch.int32, device=device)
        self._packed = np.zeros(total, np.int32)
        self._ring = StagingRing((total,), torch.int32, steps_in_flight)

    def __getitem__(self, name: str) -> torch.Tensor:
        """Returns the whole array: a view, the same for all steps."""
        return self.numbers[self.places[name]]

    def upload(self, step: Mapping[str, tuple[np.ndarray, int | None]]) -> None:
        """Writes a step to the arrays, by one pinned upload without a wait.

        `step` has two things for each array: its first numbers, integers on the host that the
        caller may change at once, and at most as many as the array has; and the number that fills
        the rest, in every step. None leaves the rest undefined, for arrays whose rest is not read.
        """
        packed, end = self._packed, 0
        for name, place in self.places.items():
            values, padding = step[name]
            array = packed[place]
            array[: len(values)] = values
            end = place.start + len(values)
            if padding is not None:
                array[len(values) :] = padding
                end = place.stop
        # Numbers after `end` are not read.
        self._ring.upload(torch.from_numpy(packed[:end]), self.numbers[:end])
