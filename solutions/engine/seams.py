"""What each optimisation changes: the code as it was, and as it is, behind one call each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from solutions.flex_graph import before as flex_before
from solutions.flex_graph.builder import FlexAttentionMetadataBuilder
from solutions.flex_graph.runner import MetadataBuilder
from solutions.gdn import before as gdn_before
from solutions.gdn.chunk_gated_delta_rule import chunk_gated_delta_rule
from solutions.gdn.metadata import Tables
from solutions.offload import before as offload_before
from solutions.offload.handler import SingleDirectionOffloadingHandler
from solutions.offload.kv_tensors import KVGroup
from solutions.offload.serving import LoadingHandler
from solutions.pinned_h2d import before as ranges_before
from solutions.pinned_h2d.metadata import TritonAttentionMetadata
from solutions.pinned_h2d.runner import ModelRunner as RangeRunner
from solutions.sync_free import bad_words, data_parallel, logprobs
from solutions.sync_free.before import bad_words as bad_words_before
from solutions.sync_free.before import data_parallel as data_parallel_before
from solutions.sync_free.before import logprobs as logprobs_before
from solutions.sync_free.read_back import ReadBack

from .config import EngineConfig
from .optimizations import Optimizations
from .step_inputs import PackedInputs, SeparateInputs, StepInputs


@dataclass(frozen=True)
class RangesSeam:
    """How layers learn where images are (pinned_h2d)."""

    metadata_class: type
    make_runner: Callable[[EngineConfig, torch.device], Any]
    can_be_captured: bool
    """Whether a graph can hold the layers that ask."""


@dataclass(frozen=True)
class StepSeam:
    """How numbers get to the device, and back (sync_free)."""

    inputs_class: type[StepInputs]
    read_back: Callable[[torch.Tensor], Any]
    apply_bad_words: Callable[..., None]
    gather_specific_token_logprobs: Callable[..., Any]
    run_ar: Callable[..., Any]
    steps_ahead: int
    """Steps that are queued before the tokens of one are read."""


@dataclass(frozen=True)
class TablesSeam:
    """Where chunk tables are made (gdn_precompute)."""

    tables: Tables | None
    rule: Callable[..., Any]


@dataclass(frozen=True)
class MaskSeam:
    """When FlexAttention's block mask is made (flex_full_graph)."""

    builder_class: type[MetadataBuilder]
    can_be_captured: bool


@dataclass(frozen=True)
class Seams:
    ranges: RangesSeam
    step: StepSeam
    tables: TablesSeam
    mask: MaskSeam
    loading_handler: LoadingHandler
    """Who brings blocks from host memory (offload_triton)."""


def _range_runner(config: EngineConfig, device: torch.device) -> RangeRunner:
    return RangeRunner(config.limits.max_num_seqs, config.max_images, device, for_graphs=True)


def _calibrated_loads(groups: Sequence[KVGroup]) -> SingleDirectionOffloadingHandler:
    return SingleDirectionOffloadingHandler(groups, gpu_to_cpu=False)


BEFORE = Seams(
    ranges=RangesSeam(
        ranges_before.TritonAttentionMetadata,
        lambda config, device: ranges_before.ModelRunner(),
        can_be_captured=False,
    ),
    step=StepSeam(
        SeparateInputs,
        data_parallel_before.ReadBack,
        bad_words_before.apply_bad_words,
        logprobs_before.gather_specific_token_logprobs,
        data_parallel_before._run_ar,
        steps_ahead=0,
    ),
    tables=TablesSeam(None, gdn_before.chunk_gated_delta_rule),
    mask=MaskSeam(flex_before.FlexAttentionMetadataBuilder, can_be_captured=False),
    loading_handler=offload_before.loading_handler,
)
AFTER = Seams(
    ranges=RangesSeam(TritonAttentionMetadata, _range_runner, can_be_captured=True),
    step=StepSeam(
        PackedInputs,
        ReadBack,
        bad_words.apply_bad_words,
        logprobs.gather_specific_token_logprobs,
        data_parallel._run_ar,
        steps_ahead=1,
    ),
    tables=TablesSeam("host", chunk_gated_delta_rule),
    mask=MaskSeam(FlexAttentionMetadataBuilder, can_be_captured=True),
    loading_handler=_calibrated_loads,
)
SEAM_OF = {
    "pinned_h2d": "ranges",
    "sync_free": "step",
    "gdn_precompute": "tables",
    "flex_full_graph": "mask",
    "offload_triton": "loading_handler",
}


def seams_of(optimizations: Optimizations) -> Seams:
    return Seams(
        **{
            seam: getattr(AFTER if getattr(optimizations, name) else BEFORE, seam)
            for name, seam in SEAM_OF.items()
        }
    )
