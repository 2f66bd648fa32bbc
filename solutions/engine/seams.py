"""The five optimisations as pairs: the code that runs without each one, and the code with it.

Engines with and without an optimisation differ in one object only, a side of a seam. Nothing else
in this folder checks which optimisations are on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import torch

from solutions import sync_free
from solutions.flex_graph import FlexAttentionMetadataBuilder
from solutions.flex_graph import before as flex_before
from solutions.gdn import chunk_gated_delta_rule, each_layer
from solutions.offload import SingleDirectionOffloadingHandler
from solutions.offload import before as offload_before
from solutions.sync_free.before import bad_words as bad_words_before
from solutions.sync_free.before import causal_conv1d as conv_before
from solutions.sync_free.before import data_parallel as data_parallel_before
from solutions.sync_free.before import kv_sharing as kv_sharing_before
from solutions.sync_free.before import logprobs as logprobs_before
from solutions.sync_free.before import ngram as ngram_before
from solutions.sync_free.before import penalties as penalties_before
from solutions.sync_free.before import token_types as token_types_before
from solutions.sync_free.sites.logprobs import LogprobsOfSteps

from .memory.offloader import LoadingHandler
from .model.config import EngineConfig
from .optimizations import Optimizations
from .run.image_ranges import RangesOfEachLayer, RangesOfStep
from .run.sides import ChunkSide, ImageRanges, MaskSide, StepSide
from .run.step_inputs import PackedInputs, SeparateInputs

Side = TypeVar("Side")
MakeImageRanges = Callable[[EngineConfig, torch.device], ImageRanges]


@dataclass(frozen=True)
class Seam(Generic[Side]):
    """A pair: an engine without the optimisation runs `before`, one with it runs `after`."""

    before: Side
    after: Side

    def side(self, is_on: bool) -> Side:
        return self.after if is_on else self.before


# Chapter 01: where the images are. Each layer uploads the ranges, or the step uploads them once.
PINNED_H2D = Seam[MakeImageRanges](before=RangesOfEachLayer, after=RangesOfStep)

# Chapter 02: numbers sent to the device and back. The host waits for each transfer, or for none.
SYNC_FREE = Seam(
    before=StepSide(
        inputs_class=SeparateInputs,
        read_back=data_parallel_before.ReadBack,
        apply_bad_words=bad_words_before.apply_bad_words,
        logprobs_of_steps=lambda: logprobs_before.gather_specific_token_logprobs,
        run_ar=data_parallel_before._run_ar,
        update_ngram=ngram_before.update_ngram_gpu_tensors_incremental,
        bincount=penalties_before.bincount,
        causal_conv1d_fn=conv_before.causal_conv1d_fn,
        conv_can_be_captured=False,
        logits_rows=kv_sharing_before._prepare_kv_sharing_fast_prefill,
        init_model_kwargs=token_types_before._init_model_kwargs,
        steps_ahead=0,
    ),
    after=StepSide(
        inputs_class=PackedInputs,
        read_back=sync_free.ReadBack,
        apply_bad_words=sync_free.apply_bad_words,
        logprobs_of_steps=LogprobsOfSteps,
        run_ar=sync_free._run_ar,
        update_ngram=sync_free.update_ngram_gpu_tensors_incremental,
        bincount=sync_free.bincount,
        causal_conv1d_fn=sync_free.causal_conv1d_fn,
        conv_can_be_captured=True,
        logits_rows=sync_free._prepare_kv_sharing_fast_prefill,
        init_model_kwargs=sync_free._init_model_kwargs,
        steps_ahead=1,
    ),
)

# Chapter 03: the chunks of prompts. Before: the first layer of a step reads the starts of its
# sequences back from the device, and a cache keeps the tables for the other layers, as upstream
# did. After: the host plans the tables.
GDN_PRECOMPUTE = Seam(
    before=ChunkSide(tables=None, rule=partial(each_layer.chunk_gated_delta_rule, cached=True)),
    after=ChunkSide(tables="host", rule=chunk_gated_delta_rule),
)

# Chapter 04: FlexAttention's mask. It is built outside of the step's graph, or inside.
FLEX_FULL_GRAPH = Seam(
    before=MaskSide(flex_before.FlexAttentionMetadataBuilder, can_be_captured=False),
    after=MaskSide(FlexAttentionMetadataBuilder, can_be_captured=True),
)

# Chapter 05: prefixes from CPU memory. DMA copies all pieces, or a kernel where it is faster.
OFFLOAD_TRITON = Seam[LoadingHandler](
    before=offload_before.loading_handler,
    after=partial(SingleDirectionOffloadingHandler, gpu_to_cpu=False),
)


@dataclass(frozen=True)
class Seams:
    """The side of each seam that one engine runs."""

    ranges: MakeImageRanges
    step: StepSide
    chunks: ChunkSide
    mask: MaskSide
    loading_handler: LoadingHandler

    @classmethod
    def of(cls, optimizations: Optimizations) -> Seams:
        return cls(
            ranges=PINNED_H2D.side(optimizations.pinned_h2d),
            step=SYNC_FREE.side(optimizations.sync_free),
            chunks=GDN_PRECOMPUTE.side(optimizations.gdn_precompute),
            mask=FLEX_FULL_GRAPH.side(optimizations.flex_full_graph),
            loading_handler=OFFLOAD_TRITON.side(optimizations.offload_triton),
        )
