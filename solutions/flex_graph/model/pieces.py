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
    """What the piece before an attention leaves."""

    hidden: Hidden
    """What the next piece adds the attention's output to."""
    qkv: torch.Tensor
    """[size, (num_heads + 2 * num_kv_heads) * head_size]: what the attention reads."""


class StepInPieces:
    """Pieces of a step of `size` rows, one more than there are layers, and what lies between them:
    at one address for as long as this object lives, so that graphs can hold the pieces."""

    logits: torch.Tensor
    """[size, vocab_size]: what the last piece leaves."""

    def __init__(self, model: Decoder, inputs: ModelInputs) -> None:
        self.model, self.inputs = model, inputs
        self.unattended: dict[str, Unattended] = {}
        shape = (len(inputs.token_ids), model.config.query_size)
        # Between two attentions it is read once, so that it serves all layers.
        self.attended = torch.zeros(shape, dtype=model.config.dtype, device=inputs.token_ids.device)

    def run(self) -> Iterator[None]:
        """A generator that runs one piece each time it is resumed, len(model.layers) + 1 in all."""
        hidden = self.model.begin(self.inputs)
        for name, layer in self.model.layers.items():
            qkv = layer.before_attention(hidden)
            self.unattended[name] = Unattended(hidden, qkv)
            yield
            hidden = layer.after_attention(hidden, self.attended)
        self.logits = self.model.finish(hidden)
        yield

    def attend(self, name: str, num_tokens: int, metadata: AttentionMetadata) -> None:
        """A layer's attention, of the first `num_tokens` rows, to where the next piece reads it.
        Rows that pad the batch have none, and nobody reads what they give."""
        inputs = ModelInputs(*(tensor[:num_tokens] for tensor in self.inputs))
        qkv = self.unattended[name].qkv[:num_tokens]
        attended = self.model.layers[name].attention.forward(qkv, inputs, metadata)
        self.attended[:num_tokens].copy_(attended)
