"""A model with random weights: convolution layers, then layers that run only on the logits'
rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from .config import StepConfig

Convolve = Callable[[int, torch.Tensor, torch.Tensor], torch.Tensor]
"""A function called as convolve(index of the layer, x, weight) that returns the convolved x,
[num_tokens, hidden_size]. The weight is [hidden_size, conv_width]."""


class ConvModel:
    """A model whose first half of layers mixes each request's tokens by a convolution. The other
    layers share keys and values with these, so a step runs them only for the rows that give
    logits."""

    def __init__(self, config: StepConfig, device: torch.device) -> None:
        torch.manual_seed(config.seed)
        self.config, self.device = config, device
        self.embedding = self.weight(config.vocab_size, 1.0)
        self.type_embedding = self.weight(2, 1.0)
        self.mixing_layers = [MixingLayer(self, n) for n in range(config.num_mixing_layers)]
        self.shared_layers = [
            ConvMlp(self) for _ in range(config.num_layers - len(self.mixing_layers))
        ]
        self.head = self.weight(config.vocab_size)

    def weight(self, rows: int, scale: float | None = None) -> torch.Tensor:
        """Returns a random matrix, [rows, hidden_size]. The default `scale` keeps the length of the
        vectors that it is multiplied with."""
        shape = (rows, self.config.hidden_size)
        scale = self.config.hidden_size**-0.5 if scale is None else scale
        return torch.randn(shape, dtype=self.config.dtype, device=self.device).mul_(scale)

    def normalized(self, hidden: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden, (self.config.hidden_size,))

    def forward(
        self,
        tokens: torch.Tensor,
        token_types: torch.Tensor,
        logits_rows: torch.Tensor,
        convolve: Convolve,
    ) -> torch.Tensor:
        """Returns the logits of the tokens at `logits_rows`, [num_rows, vocab_size] float32.

        `tokens` and `token_types` are [num_tokens]; `logits_rows` are indices into them,
        [num_rows].
        """
        hidden = F.embedding(tokens, self.embedding) + F.embedding(token_types, self.type_embedding)
        for mixing in self.mixing_layers:
            hidden = mixing.forward(hidden, convolve)
        hidden = hidden.index_select(0, logits_rows)
        for shared in self.shared_layers:
            hidden = shared.forward(hidden)
        return F.linear(self.normalized(hidden), self.head).float()


class MixingLayer:
    """A layer with a projection and a convolution over each request's tokens, then an MLP."""

    def __init__(self, model: ConvModel, number: int) -> None:
        self.number, self.normalized = number, model.normalized
        self.proj = model.weight(model.config.hidden_size)
        self.conv_weight = model.weight(model.config.conv_width, 0.5).T.contiguous()
        self.mlp = ConvMlp(model)

    def forward(self, hidden: torch.Tensor, convolve: Convolve) -> torch.Tensor:
        projected = F.linear(self.normalized(hidden), self.proj)
        return self.mlp.forward(hidden + convolve(self.number, projected, self.conv_weight))


class ConvMlp:
    """An MLP that adds down(silu(up(hidden))) to `hidden`, [num_tokens, hidden_size]."""

    def __init__(self, model: ConvModel) -> None:
        hidden_size = model.config.hidden_size
        self.normalized = model.normalized
        self.up = model.weight(4 * hidden_size)
        self.down = model.weight(4 * hidden_size, 0.5 * hidden_size**-0.5).T.contiguous()

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        intermediate = F.silu(F.linear(self.normalized(hidden), self.up))
        return hidden + F.linear(intermediate, self.down)
