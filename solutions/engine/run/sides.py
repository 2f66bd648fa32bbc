"""What the code on either side of a seam has to offer: `seams.py` says which side that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from solutions.flex_graph.steps.step_runner import MetadataBuilder
from solutions.gdn.metadata import Tables

from .step_inputs import DeviceInputs

if TYPE_CHECKING:
    from solutions.pinned_h2d import Batch, PrefixRanges
    from solutions.pinned_h2d.model.model import PrefixMetadata
    from solutions.sync_free import DataParallelGroup, LogprobsTensors
    from solutions.sync_free.model.ngram_batch import NgramBatch
    from solutions.sync_free.packed.conv_metadata import ConvMetadata
    from solutions.sync_free.sites.bad_words import BadWordsTokenIds


class ImageRanges(Protocol):
    """How layers learn where a step's images are (pinned_h2d)."""

    can_be_captured: bool
    """Whether a graph can hold the layers that ask."""

    def metadata_of(
        self, batch: Batch, layers: Sequence[str], images: PrefixRanges
    ) -> Mapping[str, PrefixMetadata]:
        """What each of these layers is told of a step, by layer name."""

    def clear(self, num_rows: int) -> None:
        """Says that no token of the next `num_rows` rows lies in an image, before a graph that
        holds the layers is replayed. It uploads only if the step before had images."""

    def begin_anew(self) -> None:
        """After an upload that may have been interrupted: nobody knows what the device was told."""


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


class UpdateNgram(Protocol):
    """Writes the tokens of new requests to their rows of `token_ids` [max_reqs, max_len], moves
    those of others whose row has changed, and gives back where each request lies now."""

    def __call__(
        self,
        batch: NgramBatch,
        token_ids: torch.Tensor,
        num_tokens: torch.Tensor,
        prev_req_id_to_row: Mapping[str, int] | None,
        new_req_ids: Set[str],
    ) -> Mapping[str, int] | None: ...


class Conv1d(Protocol):
    """The convolution of several sequences, whose states go on in their slots."""

    def __call__(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        conv_states: torch.Tensor,
        query_start_loc: torch.Tensor,
        cache_indices: torch.Tensor,
        has_initial_state: torch.Tensor,
        activation: str | None,
        metadata: ConvMetadata | None = None,
    ) -> torch.Tensor: ...


FillTail = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
"""Given a buffer, indices [n], and how many are wanted: so many of the buffer, the indices first,
then the last one again and again."""
TokenTypes = Callable[[Mapping[int, int], torch.Tensor, torch.Tensor, int], dict[str, torch.Tensor]]
"""Given where the second text of some requests starts, the lengths of all on the device and on the
host, and how many there are: {"token_type_ids": [tokens of all] int32}."""


class BinCount(Protocol):
    """Counts the tokens of some rows of `all_token_ids` anew."""

    def __call__(
        self,
        req_indices: np.ndarray,
        all_token_ids: torch.Tensor,
        prompt_lens: np.ndarray,
        prefill_lens: np.ndarray,
        prompt_bin_mask: torch.Tensor,
        output_bin_counts: torch.Tensor,
    ) -> None: ...


@dataclass(frozen=True)
class StepSide:
    """How a step's numbers get to the device, and its tokens back (sync_free)."""

    inputs_class: type[DeviceInputs]
    read_back: Callable[[torch.Tensor], Awaited]
    apply_bad_words: Callable[[torch.Tensor, BadWordsTokenIds, Sequence[Sequence[int]]], None]
    """Changes logits [rows, vocab_size], given the sequences that are forbidden in some rows, and
    what each row has generated so far."""
    gather_specific_token_logprobs: Callable[
        [torch.Tensor, Mapping[int, Sequence[int]], torch.Tensor], LogprobsTensors | None
    ]
    """Reads logits [rows, vocab_size], given the ids that some rows ask for, and the tokens [rows]
    that are sampled. None if no row asks."""
    run_ar: RunAr
    update_ngram: UpdateNgram
    """Brings the tokens of requests to the device, by their rows."""
    bincount: BinCount
    """Counts what is in their prompts, and what they have said since, for penalties."""
    causal_conv1d_fn: Conv1d
    """The short convolution of Gated DeltaNet layers in steps with prompts."""
    conv_can_be_captured: bool
    """Whether a graph can hold it."""
    logits_rows: FillTail
    """The rows that a step computes to the end, in a buffer whose tail holds valid ones too."""
    init_model_kwargs: TokenTypes
    """Which of its texts each token of a pooling request belongs to."""
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
class ChunkSide:
    """Where the chunk tables of Gated DeltaNet layers are made (gdn_precompute)."""

    tables: Tables | None
    """"host" if the metadata builder plans them; None leaves them to `rule`."""
    rule: ChunkRule


@dataclass(frozen=True)
class MaskSide:
    """When FlexAttention's block mask is made (flex_full_graph)."""

    builder_class: type[MetadataBuilder]
    can_be_captured: bool
    """Whether a graph can hold the builder and the layers."""
