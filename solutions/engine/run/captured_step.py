"""A step in graphs: one, or more where it holds layers that no graph can hold."""

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
    """A layer between two graphs, whose tokens are mixed by an eager call."""

    name: str
    layer: Layer
    hidden: Hidden
    """What the graph before it leaves, for the one behind it."""
    unmixed: torch.Tensor
    """[size, …]: what the graph before it leaves, for the call."""
    mixed: torch.Tensor
    """[size, mixed_size]: what the graph behind it reads."""


class Sampled(NamedTuple):
    """What the model says of the rows that sample."""

    logits: torch.Tensor
    """[rows, vocab_size], until the next step overwrites them."""
    tokens: torch.Tensor
    """[rows] int64: chosen as each request wishes, but for words that it forbids."""


class StepGraphs:
    """The graphs of steps of up to `size` tokens: one, and one more behind each layer that can't be
    captured. Memory between graphs has one address for good. They hold decodes, a token of each
    request, or as many as `inputs` say; or, with `num_rows`, tokens of up to so many requests, as
    they come."""

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
        # Between two breaks it is read once, so that one serves all layers of a width.
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
        """Kinds of layers that no graph holds."""
        return [kind for kind, backend in self.backends.items() if not self._is_held(backend)]

    @property
    def held_kinds(self) -> list[LayerKind]:
        """All other kinds."""
        return [kind for kind, backend in self.backends.items() if self._is_held(backend)]

    def _is_held(self, backend: Backend) -> bool:
        return backend.can_be_captured if self.of_decodes else backend.can_capture_prefills

    def replay(self, view: StepView, num_sampling: int) -> Sampled:
        """Queues a step whose inputs are uploaded already. Results are [num_sampling, …]: how many
        of its tokens are sampled behind."""
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
        """All graphs but the last one, each with the eager layer behind it. Attention reads
        positions and slots, and no ids."""
        parts = (self.inputs.token_ids, self.inputs.positions, self.inputs.slot_mapping)
        inputs = ModelInputs(*(part[rows] for part in parts))
        for graph, place in zip(self.graphs[:-1], self.breaks, strict=True):
            graph.replay()
            mixed = place.layer.mix(place.unmixed[rows], inputs, metadata[place.name])
            place.mixed[rows].copy_(mixed)

    def _warm_up(self) -> None:
        """Runs the step once eagerly, since a capture can't compile. The inputs say that there are
        no tokens, so that nobody's cache is written to."""
        self.inputs.prepare(self.size)
        inputs = self.inputs.model_inputs(self.size)
        if self.of_decodes:
            metadata = self._build(self._largest, list(self.backends))
            self.inputs.choose(self.model.forward(inputs, metadata, None))
            return
        # What runs between graphs asks for what a step really has.
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
        """Up to the next layer that is to be left out, or to the sampled tokens."""
        for name, layer in layers:
            unmixed = layer.before_mixing(hidden)
            if layer.kind in self.eager_kinds:
                return Break(name, layer, hidden, unmixed, self._rooms[layer.mixed_size])
            hidden = layer.after_mixing(hidden, layer.mix(unmixed, inputs, metadata[name]))
        logits = self.model.finish(hidden, self._logits_rows)
        self.sampled = Sampled(logits, self.inputs.choose(logits))
        return None
