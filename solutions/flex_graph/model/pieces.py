"""A step of a decoder in pieces, each of which ends where an attention begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from solutions.common.decoder.layer import Hidden

from ..mask import AttentionMetadata
from ..steps.inputs import ModelInputs
from .model import Decoder


class Unattended(NamedTuple):
    """The output of the piece that ends where a layer's attention begins."""

    hidden: Hidden
    """The layer's hidden states, to which the next piece adds the attention's output."""
    qkv: torch.Tensor
    """[size, (num_heads + 2 * num_kv_heads) * head_size]: the attention's input."""


class StepInPieces:
    """The pieces of a step of `size` rows, one more than there are layers, and the tensors that
    pass from piece to piece. These stay at one address for as long as this object lives, so that
    graphs can contain the pieces."""

    logits: torch.Tensor
    """[size, vocab_size]: the output of the last piece."""

    def __init__(self, model: Decoder, inputs: ModelInputs) -> None:
        self.model, self.inputs = model, inputs
        self.unattended: dict[str, Unattended] = {}
        shape = (len(inputs.token_ids), model.config.query_size)
        # One tensor serves all layers, since the next piece reads it before the next attention
        # writes it.
        self.attended = torch.zeros(shape, dtype=model.config.dtype, device=inputs.token_ids.device)

    def run(self) -> Iterator[None]:
        """Yields once after each piece that it runs, len(model.layers) + 1 times. The caller runs
        the layer's attention in between."""
        hidden = self.model.begin(self.inputs)
        for name, layer in self.model.layers.items():
            qkv = layer.before_attention(hidden)
            self.unattended[name] = Unattended(hidden, qkv)
            yield
            hidden = layer.after_attention(hidden, self.attended)
        self.logits = self.model.finish(hidden)
        yield

    def attend(self, name: str, num_tokens: int, metadata: AttentionMetadata) -> None:
        """Runs the attention of layer `name` on the first `num_tokens` rows and writes its output
        for the next piece. Rows that pad the batch have no attention, and their results are not
        read."""
        inputs = ModelInputs(*(tensor[:num_tokens] for tensor in self.inputs))
        qkv = self.unattended[name].qkv[:num_tokens]
        attended = self.model.layers[name].attention.forward(qkv, inputs, metadata)
        self.attended[:num_tokens].copy_(attended)
