"""A model with random weights: convolution layers, then layers that only the logits' rows need."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from .config import StepConfig

Convolve = Callable[..., torch.Tensor]
"""(x, weight, bias, conv_states) to the convolved x: `causal_conv1d_fn`, told of this batch."""


class Model:
    """Half of the layers mix each request's tokens by a convolution. The others share their keys
    and values with those, so that a step runs them for the rows alone that give logits."""

    def __init__(self, config: StepConfig, device: torch.device) -> None:
        torch.manual_seed(config.seed)
        self.config, self.device = config, device
        self.embedding = self._weight(config.vocab_size, 1.0)
        self.type_embedding = self._weight(2, 1.0)
        mixing = (config.num_layers + 1) // 2
        self.mixing_layers = [MixingLayer(self) for _ in range(mixing)]
        self.shared_layers = [Mlp(self) for _ in range(config.num_layers - mixing)]
        self.head = self._weight(config.vocab_size, 1.0)

    def _weight(self, rows: int, scale: float) -> torch.Tensor:
        """[rows, hidden_size]"""
        shape = (rows, self.config.hidden_size)
        return torch.randn(shape, dtype=self.config.dtype, device=self.device).mul_(scale)

    def forward(
        self,
        tokens: torch.Tensor,
        token_types: torch.Tensor,
        logits_rows: torch.Tensor,
        convolve: Convolve,
    ) -> torch.Tensor:
        """Logits of `logits_rows`, [num_rows, vocab_size] float32.

        tokens and token_types are [num_tokens]; logits_rows are rows of these, [num_rows].
        """
        hidden = self.embedding[tokens] + self.type_embedding[token_types]
        for layer in self.mixing_layers:
            hidden = layer.forward(hidden, convolve)
        hidden = hidden[logits_rows]
        for layer in self.shared_layers:
            hidden = layer.forward(hidden)
        return F.linear(F.normalize(hidden, dim=-1), self.head).float()


class MixingLayer:
    def __init__(self, model: Model) -> None:
        config = model.config
        self.proj = model._weight(config.hidden_size, 1.0)
        self.conv_weight = model._weight(config.conv_width, 0.5).T.contiguous()
        self.conv_states = torch.zeros(
            config.num_requests,
            config.hidden_size,
            config.conv_width - 1,
            dtype=config.dtype,
            device=model.device,
        )
        self.mlp = Mlp(model)

    def forward(self, hidden: torch.Tensor, convolve: Convolve) -> torch.Tensor:
        projected = F.linear(F.normalize(hidden, dim=-1), self.proj)
        mixed = convolve(projected, self.conv_weight, None, self.conv_states)
        return self.mlp.forward(hidden + mixed)


class Mlp:
    def __init__(self, model: Model) -> None:
        hidden_size = model.config.hidden_size
        self.up = model._weight(4 * hidden_size, 1.0)
        self.down = model._weight(4 * hidden_size, hidden_size**-0.5).T.contiguous()

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        intermediate = F.silu(F.linear(F.normalize(hidden, dim=-1), self.up))
        return hidden + F.linear(intermediate, self.down)
