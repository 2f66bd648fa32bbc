"""Piecewise graphs: all between two attentions is in one, and attention itself is in none."""

from __future__ import annotations

from typing import NamedTuple

import torch

from debubble.accelerator import Graph, current

from .model.layer import Hidden
from .steps.batch import CommonAttentionMetadata
from .steps.scheduled import ScheduledBatch
from .steps.step_runner import StepRunner


class Piece(NamedTuple):
    """Up to an attention, from the one before it or from the tokens on."""

    graph: Graph
    hidden: Hidden
    """What the next graph adds the attention's output to."""
    qkv: torch.Tensor
    """[size, (num_heads + 2 * num_kv_heads) * head_size]: what the attention reads."""


class CapturedPieces(NamedTuple):
    """Memory between graphs has one address for as long as they live."""

    pieces: list[Piece]
    """One for each layer."""
    attended: torch.Tensor
    """[size, num_heads * head_size]: where each next graph reads what the attention gave. Between
    two attentions it is read once, so that it serves all layers."""
    last: Graph
    logits: torch.Tensor
    """[size, vocab_size]."""


class PiecewiseRunner(StepRunner[CapturedPieces]):
    """A step is num_layers + 1 graphs. Metadata and attention are as free as in eager steps: new
    tensors, other sizes in every step, waits of the host."""

    def _capture(self, common: CommonAttentionMetadata) -> CapturedPieces:
        model, size = self.model, common.num_actual_tokens
        layers = list(model.layers.values())
        inputs, attended = self.inputs.model_inputs(size), self._attended(size)
        pieces: list[Piece] = []
        for before, layer in zip([None, *layers], layers, strict=False):
            graph = current().graph()
            with graph.capture():
                if before is None:
                    hidden = model.begin(inputs)
                else:
                    hidden = before.after_attention(pieces[-1].hidden, attended)
                qkv = layer.before_attention(hidden)
            pieces.append(Piece(graph, hidden, qkv))
        last = current().graph()
        with last.capture():
            logits = model.finish(layers[-1].after_attention(pieces[-1].hidden, attended))
        return CapturedPieces(pieces, attended, last, logits)

    def _attended(self, size: int) -> torch.Tensor:
        config, device = self.model.config, self.inputs.token_ids.device
        return torch.zeros(size, config.query_size, dtype=config.dtype, device=device)

    def _replay(self, captured: CapturedPieces, batch: ScheduledBatch) -> torch.Tensor:
        """Rows that pad the batch have no attention, and nobody reads what they give."""
        metadata = self._metadata(self._common_of(batch))
        inputs, rows = self.inputs.model_inputs(batch.num_tokens), slice(batch.num_tokens)
        for piece, (name, layer) in zip(captured.pieces, self.model.layers.items(), strict=True):
            piece.graph.replay()
            attended = layer.attention.forward(piece.qkv[rows], inputs, metadata[name])
            captured.attended[rows].copy_(attended)
        captured.last.replay()
        return captured.logits
