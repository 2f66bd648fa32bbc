"""The Gated DeltaNet layers of a model, with random weights, and nothing else of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from ..metadata import GDNAttentionMetadata
from .config import GDNConfig
from .layer import GDNLayer, GDNState


class GDNModel:
    def __init__(self, config: GDNConfig, device: torch.device) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        shape = (config.num_layers, config.hidden_size)
        self.norm_weights = torch.randn(shape, dtype=config.dtype, device=device).mul_(0.1).add_(1)
        self.layers = [GDNLayer(config, device) for _ in range(config.num_layers)]

    def forward(
        self,
        hidden: torch.Tensor,
        metadata: GDNAttentionMetadata,
        states: Sequence[GDNState],
    ) -> torch.Tensor:
        """[T, hidden_size] to the same. `states`: one for each layer, changed in place."""
        shape, eps = hidden.shape[1:], self.config.norm_eps
        for layer, weight, state in zip(
            self.layers, self.norm_weights.unbind(), states, strict=True
        ):
            normed = F.rms_norm(hidden, shape, weight, eps)
            hidden = hidden + layer.forward(normed, metadata, state)
        return hidden
