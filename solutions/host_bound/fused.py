"""The server with one kernel for each layer: a third of the launches, and the same results."""

from __future__ import annotations

import torch

from . import before
from .kernels import run_layer


class FusedServer(before.StepServer):
    def compute(self, hidden: torch.Tensor) -> torch.Tensor:
        for scale, bias in zip(self.scales, self.biases, strict=True):
            hidden = run_layer(hidden, scale, bias)
        return hidden
