"""A decoder with random weights and layers of several kinds."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import cast

import torch
import torch.nn.functional as F

from solutions.common.decoder.layer import Hidden
from solutions.common.decoder.model import DecoderModel
from solutions.common.decoder.rotate_and_cache import cos_sin_of, cos_sin_table
from solutions.flex_graph import Mask
from solutions.flex_graph.model.attention import FlexAttention
from solutions.flex_graph.model.model import mask_of_window
from solutions.flex_graph.steps.inputs import ModelInputs

from ..memory.states import States
from .architecture import Rope
from .config import EngineConfig
from .layers import AttentionLayer, GatedDeltaNetLayer, Layer


class Model(DecoderModel[Layer]):
    """A model with random weights of config.model.seed, made on the device, and with KV caches and
    states for config.limits."""

    def __init__(self, config: EngineConfig, device: torch.device) -> None:
        model, limits = config.model, config.limits
        self.config, self.device = config, device
        self.num_slots = limits.max_num_seqs + config.num_states
        self.states = _states(config, self.num_slots, device)
        cos_sins = _cos_sins(config, device)
        attention_layer = cast(
            type[AttentionLayer], model.architecture.attention_layer or AttentionLayer
        )
        of_layers = iter(self.states.layers if self.states else ())

        def make_layer(index: int) -> Layer:
            kind = model.kind_of_layer(index)
            if kind == "gdn":
                return GatedDeltaNetLayer(model, self.num_slots, next(of_layers), device)
            cos_sin = cos_sins[index % len(cos_sins)]
            return attention_layer(kind, model, limits, cos_sin, model.window_of_layer(index))

        super().__init__(model, model.num_ids, make_layer, device)
        self.tie()
        shape = (model.architecture.token_types, model.hidden_size)
        self.token_types = torch.randn(shape, dtype=model.dtype, device=device)
        self.mask_of = {
            name: mask_of_window(model.window_of_layer(index))
            for index, (name, layer) in enumerate(self.layers.items())
            if layer.kind == "flex"
        }
        """The mask of each FlexAttention layer, by name."""

    def twin(self, config: EngineConfig) -> Model:
        """Returns a model with the same weights, and caches and states for another config. Raises
        ValueError unless that config has the same model."""
        if config.model != self.config.model:
            raise ValueError(
                "these weights are of another model: leave them out, or take its config"
            )
        twin = copy(self)
        twin.config = config
        twin.num_slots = config.limits.max_num_seqs + config.num_states
        twin.states = _states(config, twin.num_slots, self.device)
        of_layers = iter(twin.states.layers if twin.states else ())
        cos_sins = _cos_sins(config, self.device)
        twin.layers = {
            name: layer.twin(next(of_layers))
            if layer.kind == "gdn"
            else layer.twin(config.limits, cos_sins[index % len(cos_sins)])
            for index, (name, layer) in enumerate(self.layers.items())
        }
        return twin

    def tie(self) -> None:
        """Makes the head the embedding's rows of text, in a model without a head of its own."""
        if self.config.model.architecture.tied:
            self.lm_head = self.embedding[: self.config.model.vocab_size]

    def names_of(self, kind: str) -> list[str]:
        return [name for name, layer in self.layers.items() if layer.kind == kind]

    @property
    def masks(self) -> list[Mask]:
        return list(dict.fromkeys(self.mask_of.values()))

    def needs_page_lists(self, mask: Mask) -> bool:
        """Returns True if a layer with this mask uses FlexAttention, which reads lists of pages."""
        return any(
            layer.attention.needs_page_lists(mask)
            for name, layer in self.layers.items()
            if self.mask_of.get(name) == mask
            and isinstance(layer, AttentionLayer)
            and isinstance(layer.attention, FlexAttention)
        )

    def forward(
        self, inputs: ModelInputs, metadata: Mapping[str, object], logits_rows: torch.Tensor | None
    ) -> torch.Tensor:
        """Returns [rows, vocab_size]: the logits after the tokens `logits_rows` [rows] int32, or
        after all. `metadata` is by layer name."""
        return self.finish(self.hidden(inputs, metadata, logits_rows))

    def hidden(
        self,
        inputs: ModelInputs,
        metadata: Mapping[str, object],
        rows: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
    ) -> Hidden:
        """Returns the last layer's output for the tokens `rows` [rows] int32, or for all. All
        tokens take part in its mixing; after that only these rows are computed. `token_type_ids`
        [T] int32 are rows of `token_types`, which are added to the embeddings."""
        hidden, last = self.begin(inputs), [*self.layers][-1]
        if token_type_ids is not None:
            hidden.residual.add_(F.embedding(token_type_ids, self.token_types))
        for name, layer in self.layers.items():
            mixed = layer.mix(layer.before_mixing(hidden), inputs, metadata[name])
            if name == last and rows is not None:
                # `residual` has the whole sum already: the norm before the mixing has added
                # `update` to it.
                hidden = Hidden(hidden.residual.index_select(0, rows), None)
                mixed = mixed.index_select(0, rows)
            hidden = layer.after_mixing(hidden, mixed)
        return hidden

    def begin(self, inputs: ModelInputs) -> Hidden:
        embedded = F.embedding(inputs.token_ids, self.embedding)
        scale = self.config.model.architecture.embedding_scale
        if scale != 1.0:
            # The scale is rounded to the model's dtype, as in training. Images are not scaled.
            ones = embedded.new_ones(())
            is_text = inputs.token_ids < self.config.model.vocab_size
            embedded = embedded * torch.where(is_text, ones * scale, ones)[:, None]
        return Hidden(embedded, None)


def _states(config: EngineConfig, num_slots: int, device: torch.device) -> States | None:
    num_layers = config.model.num_layers_of("gdn")
    if not num_layers:
        return None
    return States(config.model.gdn(num_slots), num_layers, config.num_states, device)


def _cos_sins(config: EngineConfig, device: torch.device) -> list[torch.Tensor]:
    """Returns the rotary tables of the layers: layer i uses the table at i modulo the list's
    length. Layers with the same rope share one table."""
    model, length = config.model, config.limits.max_model_len
    if device.type == "meta":
        # PyTorch decomposes `pow` and `cos` there, and imports its whole compiler to do so.
        return [torch.empty(length, model.head_size, device=device)]
    if not model.architecture.ropes:
        return [cos_sin_table(length, model.head_size, model.rope_theta, device)]
    tables: dict[Rope, torch.Tensor] = {}
    for rope in model.architecture.ropes:
        if rope not in tables:
            frequencies = torch.tensor(rope.frequencies, dtype=torch.float64, device=device)
            factors = torch.where(frequencies > 0, rope.factor, 1.0).repeat(2)
            tables[rope] = (cos_sin_of(frequencies, length) * factors).float()
    return [tables[rope] for rope in model.architecture.ropes]
