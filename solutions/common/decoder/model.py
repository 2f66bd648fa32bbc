"""What a decoder has around its layers: an embedding, a final norm, and a head."""

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
    """Weights of config.seed, made on the device: the embedding's first, then those of each layer,
    by name, then those of the final norm and of the head."""

    def __init__(
        self,
        config: DecoderConfig,
        num_ids: int,
        make_layer: Callable[[int], Layer],
        device: torch.device,
    ) -> None:
        """`num_ids`: rows of the embedding; the head has config.vocab_size. `make_layer` is given
        the layer's index."""
        torch.manual_seed(config.seed)
        self.eps = config.norm_eps
        shape = (num_ids, config.hidden_size)
        self.embedding = torch.randn(shape, dtype=config.dtype, device=device)
        self.layers = {f"layers.{index}": make_layer(index) for index in range(config.num_layers)}
        self.final_norm = norm_weight(config, device)
        self.lm_head = projection(config.vocab_size, config.hidden_size, config, device)

    def finish(self, hidden: Hidden, logits_rows: torch.Tensor | None = None) -> torch.Tensor:
        """The logits [rows, vocab_size] of what the last layer gives: behind the tokens
        `logits_rows` [rows] int32, or behind all."""
        return linear(self.normed(hidden, logits_rows), self.lm_head)

    def normed(self, hidden: Hidden, rows: torch.Tensor | None = None) -> torch.Tensor:
        """[rows, hidden_size]: the same in front of the head."""
        residual, update = hidden
        if rows is not None:
            update = None if update is None else update.index_select(0, rows)
            residual = residual.index_select(0, rows)
        return add_rms_norm(residual, update, self.final_norm, self.eps)
