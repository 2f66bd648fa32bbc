"""A step in graphs: one graph, or several if some layers can't be captured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch

from debubble.accelerator import Graph, current
from solutions.common.decoder.layer import Hidden
from solutions.flex_graph.steps.inputs import ModelInputs

from ..model.config import LayerKind
from ..model.layers import Layer
from ..model.model import Model
from ..requests.step_view import StepView
from .backends import Backend
from .step_inputs import DeviceInputs


class Break(NamedTuple):
    """A layer between two graphs, whose mixing of tokens runs eagerly, and the tensors that it
    shares with the graphs."""

    name: str
    layer: Layer
    hidden: Hidden
    """Output of the graph before the layer, kept in memory for the graph after it."""
    unmixed: torch.Tensor
    """[size, …]: output of the graph before the layer, for the eager call."""
    mixed: torch.Tensor
    """[size, mixed_size]: output of the eager call, for the graph after the layer."""


class Sampled(NamedTuple):
    """The model's output for the rows of a step that sample a token."""

    logits: torch.Tensor
    """[rows, vocab_size], valid until the next step overwrites them."""
    tokens: torch.Tensor
    """[rows] int64: sampled by each request's parameters, but for its bad words."""
    inputs: DeviceInputs
    """The step's inputs, which chose the tokens."""


class StepGraphs:
    """The graphs of steps of up to `size` tokens: one graph, and one more after each layer that
    can't be captured. Memory between graphs keeps its address. Without `num_rows` the graphs run
    decodes, with `inputs.tokens_of_row` tokens of each request. With `num_rows` they run any steps
    with up to that many requests."""

    def __init__(
        self,
        model: Model,
        backends: dict[LayerKind, Backend],
        inputs: DeviceInputs,
        size: int,
        num_rows: int | None = None,
    ) -> None:
        self.model, self.backends, self.inputs, self.size = model, backends, inputs, size
        limits = model.config.limits
        self.of_decodes = num_rows is None
        self._logits_rows = None if num_rows is None else inputs.logits_rows[:num_rows]
        self._largest = (
            StepView.of_decodes(size // inputs.tokens_of_row, limits, inputs.tokens_of_row)
            if num_rows is None
            else StepView.of_prefills(size, num_rows, limits)
        )
        self.eager_kinds = [
            kind
            for kind, backend in backends.items()
            if not (backend.can_be_captured if self.of_decodes else backend.can_capture_prefills)
        ]
        """The kinds of layers that no graph contains."""
        self.breaks: list[Break] = []
        self.graphs: list[Graph] = []
        # Each buffer is read once, before the next break, so that all layers of a width share one.
        self._rooms = {
            layer.mixed_size: torch.zeros(
                size, layer.mixed_size, dtype=model.config.model.dtype, device=model.device
            )
            for layer in model.layers.values()
            if layer.kind in self.eager_kinds
        }
        self._warm_up()
        self._capture()

    def _warm_up(self) -> None:
        """Runs the step once eagerly, since a capture can't compile kernels. The inputs have no
        tokens yet, so no cache is written to."""
        if not self.of_decodes:
            # The layers between graphs need the metadata of a real step.
            for _ in self._advance():
                pass
            return
        self.inputs.prepare(self.size)
        inputs = self.inputs.model_inputs(self.size)
        metadata = self._metadata(self.backends)
        self.inputs.choose(self.model.forward(inputs, metadata, None))

    def _capture(self) -> None:
        """Captures a graph up to each layer that is left out, and one up to the sampled tokens."""
        places = self._advance()
        place: Break | None
        while True:
            graph = current().graph()
            with graph.capture():
                place = next(places, None)
            self.graphs.append(graph)
            if place is None:
                return
            self.breaks.append(place)

    def _advance(self) -> Iterator[Break]:
        """Runs the largest step up to its sampled tokens. Stops before the mixing of each layer
        that is left out, and yields that layer."""
        if not self.eager_kinds:
            self.inputs.prepare(self.size)
        held = [kind for kind in self.backends if kind not in self.eager_kinds]
        metadata = self._metadata(held)
        inputs = self.inputs.model_inputs(self.size)
        hidden = self.model.begin(inputs)
        for name, layer in self.model.layers.items():
            unmixed = layer.before_mixing(hidden)
            if layer.kind in self.eager_kinds:
                mixed = self._rooms[layer.mixed_size]
                yield Break(name, layer, hidden, unmixed, mixed)
            else:
                mixed = layer.mix(unmixed, inputs, metadata[name])
            hidden = layer.after_mixing(hidden, mixed)
        logits = self.model.finish(hidden, self._logits_rows)
        self.sampled = Sampled(logits, self.inputs.choose(logits), self.inputs)

    def replay(self, view: StepView, num_sampling: int) -> Sampled:
        """Queues a step whose inputs are uploaded already. Returns logits and tokens of the step's
        first `num_sampling` requests that sample."""
        if self.breaks:
            self.inputs.prepare(self.size)
        metadata: dict[str, object] = {}
        for kind, backend in self.backends.items():
            if kind in self.eager_kinds:
                metadata |= backend.build(view, self.inputs)
            else:
                backend.renew(view, self.inputs)
        if self.breaks:
            self._replay_pieces(view.num_tokens, metadata)
        self.graphs[-1].replay()
        of_rows = slice(num_sampling * self.inputs.tokens_of_row)
        return Sampled(self.sampled.logits[of_rows], self.sampled.tokens[of_rows], self.inputs)

    def _replay_pieces(self, num_tokens: int, metadata: dict[str, object]) -> None:
        """Queues all graphs but the last one, each with the attention that comes after it."""
        rows = slice(num_tokens)
        # Attention reads positions and slots, and no ids.
        parts = (self.inputs.token_ids, self.inputs.positions, self.inputs.slot_mapping)
        inputs = ModelInputs(*(part[rows] for part in parts))
        for graph, place in zip(self.graphs, self.breaks, strict=False):
            graph.replay()
            mixed = place.layer.mix(place.unmixed[rows], inputs, metadata[place.name])
            place.mixed[rows].copy_(mixed)

    def _metadata(self, kinds: Iterable[LayerKind]) -> dict[str, object]:
        """Returns the metadata of the largest step, for layers of these kinds."""
        metadata: dict[str, object] = {}
        for kind in kinds:
            metadata |= self.backends[kind].build(self._largest, self.inputs)
        return metadata
