"""Backends, which build the metadata of a step: one for each kind of layer, for all layers of that
kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from solutions.common.staging_ring import STEPS_IN_FLIGHT, StagingRing
from solutions.flex_graph import CommonAttentionMetadata as FlexCommon
from solutions.flex_graph import FlexAttentionMetadataBuilder, Limits
from solutions.gdn import CommonAttentionMetadata as GdnCommon
from solutions.gdn import GDNAttentionMetadataBuilder
from solutions.pinned_h2d import Batch as SpanBatch

from ..model.config import LayerKind
from ..model.model import Model
from ..requests.step_view import StepView
from ..seams import Seams
from .sides import ChunkSide, ImageRanges, MaskSide, StepSide
from .step_inputs import DeviceInputs


class Backend:
    """A builder of a step's metadata, for the layers of one kind."""

    can_be_captured: bool
    """True if a decode step's graph can contain these layers."""
    can_capture_prefills: bool
    """True if the graph of a step with prompts can contain them."""

    def build(self, view: StepView, inputs: DeviceInputs) -> Mapping[str, object]:
        """Returns the metadata of a step, by layer name. The step's inputs are uploaded already."""
        raise NotImplementedError

    def renew(self, view: StepView, inputs: DeviceInputs) -> None:
        """Updates the metadata that a graph with these layers reads, but does not build itself:
        none in this class. Call it before each replay."""

    def reset(self) -> None:
        """Resets what an interrupted step leaves: nothing in this class. Call it with the device
        idle."""


class FlexBackend(Backend):
    """The backend of FlexAttention layers: builds block masks, with a builder for each mask that
    the layers use."""

    def __init__(self, model: Model, side: MaskSide) -> None:
        limits, device = model.config.limits, model.device
        self.can_be_captured = self.can_capture_prefills = side.can_be_captured
        self.mask_of = model.mask_of
        self.builders = {mask: side.builder_class(limits, device, mask) for mask in model.masks}
        for mask, builder in self.builders.items():
            if isinstance(builder, FlexAttentionMetadataBuilder):
                builder.buffers.lists_pages = model.needs_page_lists(mask)

    def build(self, view: StepView, inputs: DeviceInputs) -> dict[str, object]:
        rows = view.num_rows
        common = FlexCommon(
            query_start_loc=inputs.query_start_loc[: rows + 1],
            seq_lens=inputs.seq_lens[:rows],
            block_table=inputs.block_table[:rows],
            num_actual_tokens=view.num_tokens,
            max_seq_len=view.max_seq_len,
        )
        of_mask = {
            mask: builder.build_for_cudagraph_capture(common)
            if view.for_capture
            else builder.build(common)
            for mask, builder in self.builders.items()
        }
        return {name: of_mask[mask] for name, mask in self.mask_of.items()}


class SpansBackend(Backend):
    """The backend of layers that read the ranges of images. Each layer has a metadata object of its
    own, as in the version in which each layer made its own upload."""

    def __init__(self, model: Model, ranges: ImageRanges) -> None:
        self.can_be_captured = self.can_capture_prefills = ranges.can_be_captured
        self.names = model.names_of("spans")
        self.ranges = ranges

    def build(self, view: StepView, inputs: DeviceInputs) -> Mapping[str, object]:
        rows = view.num_rows
        batch = SpanBatch(
            query_start_loc=inputs.query_start_loc[: rows + 1],
            seq_lens=inputs.seq_lens[:rows],
            block_table=inputs.block_table[:rows],
            slot_mapping=inputs.slot_mapping[: view.num_tokens],
            requests=range(rows),
            scheduled=view.positions,
        )
        return self.ranges.metadata_of(batch, self.names, view.images)

    def renew(self, view: StepView, inputs: DeviceInputs) -> None:
        """Writes the ranges of the step's images to the address that the graph reads, or clears the
        ranges if no request has images."""
        if view.images:
            self.build(view, inputs)
        else:
            self.ranges.clear(view.num_rows)

    def reset(self) -> None:
        self.ranges.reset()


class GdnBackend(Backend):
    """The backend of Gated DeltaNet layers: builds one metadata object, of sequences and states,
    for all layers."""

    can_be_captured = True
    """True, since decodes need no chunk tables."""

    def __init__(self, model: Model, side: ChunkSide, step: StepSide) -> None:
        limits = model.config.limits
        self.names = model.names_of("gdn")
        ring = StagingRing((_most_bytes(limits),), torch.uint8, STEPS_IN_FLIGHT)
        self.builder = GDNAttentionMetadataBuilder(model.device, side.tables, ring)
        # A rule or a convolution that makes its own tables reads them back from the device, which a
        # graph can't contain.
        self.can_capture_prefills = side.tables is not None and step.conv_can_be_captured
        self.builder_in_graphs = GDNAttentionMetadataBuilder(model.device, "device")
        for layer in model.layers.values():
            if layer.kind == "gdn":
                layer.delta_net.chunk_gated_delta_rule = side.rule
                layer.delta_net.causal_conv1d_fn = step.causal_conv1d_fn

    def build(self, view: StepView, inputs: DeviceInputs) -> dict[str, object]:
        rows = view.num_rows
        builder = self.builder_in_graphs if view.for_capture else self.builder
        metadata = builder.build(
            GdnCommon(
                query_start_loc=inputs.query_start_loc[: rows + 1],
                query_start_loc_cpu=view.query_start_loc,
                seq_lens=inputs.seq_lens[:rows],
                seq_lens_cpu=view.seq_lens,
                state_indices=inputs.slots[:rows, None],
                num_actual_tokens=view.num_tokens,
            )
        )
        return dict.fromkeys(self.names, metadata)


def backends_of(model: Model, seams: Seams) -> dict[LayerKind, Backend]:
    """Returns a backend for each kind of layer that the model has."""
    make: dict[LayerKind, Callable[[], Backend]] = {
        "flex": lambda: FlexBackend(model, seams.mask),
        "spans": lambda: SpansBackend(model, seams.ranges(model.config, model.device)),
        "gdn": lambda: GdnBackend(model, seams.chunks, seams.step),
    }
    return {kind: make[kind]() for kind in make if model.config.model.num_layers_of(kind)}


def _most_bytes(limits: Limits) -> int:
    """Returns an upper bound of the bytes that the metadata builder uploads in a step: for each
    token its share of the chunks that it is in (less than 2 bytes); for each request its starts,
    its flag, and the chunks that it fills in part."""
    return 2 * limits.max_num_batched_tokens + 64 * limits.max_num_seqs + 1024
