"""What each optimisation changes: the code as it was, and as it is, behind one call each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from solutions.common.read_back import ReadBack
from solutions.flex_graph import before as flex_before
from solutions.flex_graph.builder import FlexAttentionMetadataBuilder
from solutions.flex_graph.steps.step_runner import MetadataBuilder
from solutions.gdn import before as gdn_before
from solutions.gdn.metadata import Tables
from solutions.gdn.rule.chunk_gated_delta_rule import chunk_gated_delta_rule
from solutions.offload import before as offload_before
from solutions.offload.handler import SingleDirectionOffloadingHandler
from solutions.offload.memory.kv_tensors import KVGroup
from solutions.offload.transfers import LoadingHandler
from solutions.pinned_h2d import before as ranges_before
from solutions.pinned_h2d.metadata import ModelRunner as RangeRunner
from solutions.pinned_h2d.metadata import TritonAttentionMetadata
from solutions.sync_free.before import bad_words as bad_words_before
from solutions.sync_free.before import data_parallel as data_parallel_before
from solutions.sync_free.before import logprobs as logprobs_before
from solutions.sync_free.sites import bad_words, data_parallel, logprobs

from .model.config import EngineConfig
from .optimizations import Optimizations
from .run.step_inputs import PackedInputs, SeparateInputs, StepInputs

if TYPE_CHECKING:
    from solutions.pinned_h2d.model.batch import Batch
    from solutions.pinned_h2d.model.model import PrefixMetadata
    from solutions.pinned_h2d.ranges import PrefixRanges
    from solutions.sync_free.checks.requests import BadWordsTokenIds
    from solutions.sync_free.kernels.logprobs import LogprobsTensors
    from solutions.sync_free.model.data_parallel_group import DataParallelGroup


class RangesSeam(Protocol):
    """How layers learn where images are (pinned_h2d)."""

    can_be_captured: bool
    """Whether a graph can hold the layers that ask."""

    def metadata_of(
        self, batch: Batch, layers: Sequence[str], images: PrefixRanges
    ) -> Mapping[str, PrefixMetadata]:
        """What these layers are told of a step, by layer name."""

    def clear(self, num_rows: int) -> None:
        """Before a graph that holds the layers is replayed for so many rows, none of whose tokens
        lies in an image: there is nothing to upload unless the step before had some."""


class RangesOfEachLayer:
    """As it was: every layer uploads the ranges for itself, while it runs."""

    can_be_captured = False

    def __init__(self) -> None:
        self.runner = ranges_before.ModelRunner()

    def metadata_of(
        self, batch: Batch, layers: Sequence[str], images: PrefixRanges
    ) -> Mapping[str, PrefixMetadata]:
        metadata = {name: ranges_before.TritonAttentionMetadata(batch) for name in layers}
        self.runner._set_mm_prefix_range_for_metadata(metadata, images)
        return metadata

    def clear(self, num_rows: int) -> None:
        """No graph holds these layers."""


class RangesOfStep:
    """One upload a step, to where a graph reads."""

    can_be_captured = True

    def __init__(self, config: EngineConfig, device: torch.device) -> None:
        self.runner = RangeRunner(
            config.limits.max_num_seqs, config.max_images, device, for_graphs=True
        )

    def metadata_of(
        self, batch: Batch, layers: Sequence[str], images: PrefixRanges
    ) -> Mapping[str, PrefixMetadata]:
        metadata = {name: TritonAttentionMetadata(batch) for name in layers}
        self.runner._set_mm_prefix_range_for_metadata(metadata, images)
        return metadata

    def clear(self, num_rows: int) -> None:
        self.runner.prefix_ranges.update(None, num_rows)


class Awaited(Protocol):
    """A device tensor that is on its way to the host, or there already."""

    def read(self) -> torch.Tensor:
        """The tensor on the host, the caller's to keep. Waits if it is not there yet."""


class RunAr(Protocol):
    """Tells all ranks what this one is about to run, and asks what they are. Reading the answer
    gives int32 [4, group.size], a column for each rank. All ranks call it equally often."""

    def __call__(
        self,
        should_ubatch: bool,
        orig_num_tokens: int,
        padded_num_tokens: int,
        cudagraph_mode: int,
        group: DataParallelGroup,
    ) -> Awaited: ...


@dataclass(frozen=True)
class StepSeam:
    """How numbers get to the device, and back (sync_free)."""

    inputs_class: type[StepInputs]
    read_back: Callable[[torch.Tensor], Awaited]
    apply_bad_words: Callable[[torch.Tensor, BadWordsTokenIds, Sequence[Sequence[int]]], None]
    """Of logits [rows, vocab_size], the sequences that are forbidden in some rows, and what each
    row has generated so far. It changes the logits."""
    gather_specific_token_logprobs: Callable[
        [torch.Tensor, Mapping[int, Sequence[int]], torch.Tensor], LogprobsTensors | None
    ]
    """Of logits [rows, vocab_size], the ids that some rows ask for, and the tokens [rows] that are
    sampled. None if no row asks."""
    run_ar: RunAr
    steps_ahead: int
    """Steps that are queued before the tokens of one are read."""


class ChunkRule(Protocol):
    """The gated delta rule over whole prompts, chunk by chunk: (o, final state or None)."""

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        g: torch.Tensor,
        beta: torch.Tensor,
        scale: float | None = None,
        initial_state: torch.Tensor | None = None,
        output_final_state: bool = False,
        cu_seqlens: torch.Tensor | None = None,
        chunk_indices: torch.Tensor | None = None,
        chunk_offsets: torch.Tensor | None = None,
        use_qk_l2norm_in_kernel: bool = False,
        state_indices: torch.Tensor | None = None,
        has_initial_state: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]: ...


@dataclass(frozen=True)
class TablesSeam:
    """Where chunk tables are made (gdn_precompute)."""

    tables: Tables | None
    rule: ChunkRule


@dataclass(frozen=True)
class MaskSeam:
    """When FlexAttention's block mask is made (flex_full_graph)."""

    builder_class: type[MetadataBuilder]
    can_be_captured: bool


@dataclass(frozen=True)
class Seams:
    ranges: Callable[[EngineConfig, torch.device], RangesSeam]
    step: StepSeam
    tables: TablesSeam
    mask: MaskSeam
    loading_handler: LoadingHandler
    """Who brings blocks from host memory (offload_triton)."""


def _calibrated_loads(groups: Sequence[KVGroup]) -> SingleDirectionOffloadingHandler:
    return SingleDirectionOffloadingHandler(groups, gpu_to_cpu=False)


BEFORE = Seams(
    ranges=lambda config, device: RangesOfEachLayer(),
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
    ranges=RangesOfStep,
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


def seams_of(optimizations: Optimizations) -> Seams:
    return Seams(
        ranges=_side(optimizations.pinned_h2d).ranges,
        step=_side(optimizations.sync_free).step,
        tables=_side(optimizations.gdn_precompute).tables,
        mask=_side(optimizations.flex_full_graph).mask,
        loading_handler=_side(optimizations.offload_triton).loading_handler,
    )


def _side(is_on: bool) -> Seams:
    return AFTER if is_on else BEFORE
