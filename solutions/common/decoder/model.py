"""The parts of a decoder around its layers: an embedding, a final norm, and a head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

from .add_rms_norm import add_rms_norm
from .few_rows import linear
from .layer import Hidden
from .shape import DecoderConfig
from .weights import norm_weight, projection

Layer = TypeVar("Layer")


class DecoderModel(Generic[Layer]):
    """A decoder with random weights of config.seed, drawn on the device in this order: the
    embedding, each layer, the final norm, the head. `layers` has the layers by name."""

    def __init__(
        self,
        config: DecoderConfig,
        num_ids: int,
        make_layer: Callable[[int], Layer],
        device: torch.device,
    ) -> None:
        """Draws the weights. `num_ids` is the number of the embedding's rows; the head has
        config.vocab_size. `make_layer` gets the layer's index."""
        torch.manual_seed(config.seed)
        self.eps = config.norm_eps
        shape = (num_ids, config.hidden_size)
        self.embedding = torch.randn(shape, dtype=config.dtype, device=device)
        self.layers = {f"layers.{index}": make_layer(index) for index in range(config.num_layers)}
        self.final_norm = norm_weight(config, device)
        self.lm_head = projection(config.vocab_size, config.hidden_size, config, device)

    def finish(self, hidden: Hidden, logits_rows: torch.Tensor | None = None) -> torch.Tensor:
        """Returns the logits [rows, vocab_size] for the last layer's output: after the tokens
        `logits_rows` [rows] int32, or after all."""
        return linear(self.normed(hidden, logits_rows), self.lm_head)

    def normed(self, hidden: Hidden, rows: torch.Tensor | None = None) -> torch.Tensor:
        """Returns [rows, hidden_size]: the normalised output of the tokens `rows`, or of all, which
        is the head's input."""
        residual, update = hidden
        if rows is not None:
            update = None if update is None else update.index_select(0, rows)
            residual = residual.index_select(0, rows)
        return add_rms_norm(residual, update, self.final_norm, self.eps)
