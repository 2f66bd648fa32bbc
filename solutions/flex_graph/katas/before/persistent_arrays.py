"""A step's arrays as new tensors, at addresses that no graph has captured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch


class PersistentArrays:
    """A step's int32 arrays on the device, by name. `upload` replaces each of them with a new
    tensor."""

    def __init__(
        self, sizes: Mapping[str, int], device: torch.device, steps_in_flight: int = 2
    ) -> None:
        self.device = device
        self.arrays = {
            name: torch.zeros(size, dtype=torch.int32, device=device)
            for name, size in sizes.items()
        }

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.arrays[name]

    def upload(self, step: Mapping[str, tuple[np.ndarray, int | None]]) -> None:
        for name, (values, _) in step.items():
            self.arrays[name] = torch.tensor(values, dtype=torch.int32).to(self.device)
