"""A step in graphs: one graph, or several if some layers can't be captured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    """Output of the graph before the layer, for the graph after it."""
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

    @property
    def eager_kinds(self) -> list[LayerKind]:
        """The kinds of layers that no graph contains."""
        return [kind for kind, backend in self.backends.items() if not self._is_held(backend)]

    @property
    def held_kinds(self) -> list[LayerKind]:
        """The kinds of layers that the graphs contain."""
        return [kind for kind, backend in self.backends.items() if self._is_held(backend)]

    def _is_held(self, backend: Backend) -> bool:
        return backend.can_be_captured if self.of_decodes else backend.can_capture_prefills

    def replay(self, view: StepView, num_sampling: int) -> Sampled:
        """Queues a step whose inputs are uploaded already. Returns logits and tokens of the step's
        first `num_sampling` rows that sample."""
        metadata: dict[str, object] = {}
        if self.breaks:
            self.inputs.prepare(self.size)
        for backend in self.backends.values():
            if self._is_held(backend):
                backend.renew(view, self.inputs)
            else:
                metadata |= backend.build(view, self.inputs)
        if self.breaks:
            self._replay_up_to_the_last(slice(view.num_tokens), metadata)
        self.graphs[-1].replay()
        rows = slice(num_sampling)
        return Sampled(self.sampled.logits[rows], self.sampled.tokens[rows])

    def _replay_up_to_the_last(self, rows: slice, metadata: Mapping[str, object]) -> None:
        """Replays all graphs but the last one, each followed by its eager layer. Attention reads
        positions and slots, and no ids."""
        parts = (self.inputs.token_ids, self.inputs.positions, self.inputs.slot_mapping)
        inputs = ModelInputs(*(part[rows] for part in parts))
        for graph, place in zip(self.graphs[:-1], self.breaks, strict=True):
            graph.replay()
            mixed = place.layer.mix(place.unmixed[rows], inputs, metadata[place.name])
            place.mixed[rows].copy_(mixed)

    def _warm_up(self) -> None:
        """Runs the step once eagerly, since a capture can't compile kernels. The inputs have no
        tokens yet, so no cache is written to."""
        self.inputs.prepare(self.size)
        inputs = self.inputs.model_inputs(self.size)
        if self.of_decodes:
            metadata = self._build(self._largest, list(self.backends))
            self.inputs.choose(self.model.forward(inputs, metadata, None))
            return
        # The layers between graphs need the metadata of a real step.
        metadata = self._build(self._largest, self.held_kinds)
        layers = iter(self.model.layers.items())
        place = self._advance(self.model.begin(inputs), layers, inputs, metadata)
        while place is not None:
            hidden = place.layer.after_mixing(place.hidden, place.mixed)
            place = self._advance(hidden, layers, inputs, metadata)

    def _build(self, view: StepView, kinds: Sequence[LayerKind]) -> dict[str, object]:
        metadata: dict[str, object] = {}
        for kind in kinds:
            metadata |= self.backends[kind].build(view, self.inputs)
        return metadata

    def _capture(self) -> None:
        model = self.model
        layers = iter(model.layers.items())
        graph = current().graph()
        with graph.capture():
            if not self.eager_kinds:
                self.inputs.prepare(self.size)
            metadata = self._build(self._largest, self.held_kinds)
            inputs = self.inputs.model_inputs(self.size)
            place = self._advance(model.begin(inputs), layers, inputs, metadata)
        self.graphs.append(graph)
        while place is not None:
            self.breaks.append(place)
            graph = current().graph()
            with graph.capture():
                hidden = place.layer.after_mixing(place.hidden, place.mixed)
                place = self._advance(hidden, layers, inputs, metadata)
            self.graphs.append(graph)

    def _advance(
        self,
        hidden: Hidden,
        layers: Iterator[tuple[str, Layer]],
        inputs: ModelInputs,
        metadata: dict[str, object],
    ) -> Break | None:
        """Runs layers up to the next one that is left out, which it returns, or up to the sampled
        tokens."""
        for name, layer in layers:
            unmixed = layer.before_mixing(hidden)
            if layer.kind in self.eager_kinds:
                return Break(name, layer, hidden, unmixed, self._rooms[layer.mixed_size])
            hidden = layer.after_mixing(hidden, layer.mix(unmixed, inputs, metadata[name]))
        logits = self.model.finish(hidden, self._logits_rows)
        self.sampled = Sampled(logits, self.inputs.choose(logits))
        return None
