"""The interfaces of the pairs in `seams.py`: for each optimisation, one side of a pair runs without
it, and the other with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from solutions.flex_graph.steps.step_runner import MetadataBuilder
from solutions.gdn.metadata import Tables
from solutions.pinned_h2d import Batch, PrefixRanges
from solutions.pinned_h2d.model.model import PrefixMetadata
from solutions.sync_free import DataParallelGroup, LogprobsTensors
from solutions.sync_free.model.ngram_batch import NgramBatch
from solutions.sync_free.sites.bad_words import BadWordsTokenIds

from .step_inputs import DeviceInputs


class ImageRanges(Protocol):
    """The ranges of a step's images, as layers read them (pinned_h2d)."""

    can_be_captured: bool
    """True if a graph can contain the layers that read the ranges."""

    def metadata_of(
        self, batch: Batch, layers: Sequence[str], images: PrefixRanges
    ) -> Mapping[str, PrefixMetadata]:
        """Returns the metadata of each of these layers for a step, by layer name."""

    def clear(self, num_rows: int) -> None:
        """Writes that no token of the next `num_rows` rows lies in an image. Call it before the
        replay of a graph that contains the layers. It uploads only if the step before had
        images."""

    def reset(self) -> None:
        """Forgets what the device has. Call it after an upload that may have been interrupted."""


class Awaited(Protocol):
    """A device tensor in flight to the host, or already there."""

    def read(self) -> torch.Tensor:
        """Returns the tensor on the host, which the caller may keep. Waits if it has not arrived
        yet."""


RunAr = Callable[[bool, int, int, int, DataParallelGroup], Awaited]
"""A function of should_ubatch, orig_num_tokens, padded_num_tokens, cudagraph_mode and the group. It
tells all ranks what this rank is about to run, and gathers what they are about to run. Reading the
result gives int32 [4, group.size], a column for each rank. All ranks call it equally often."""
UpdateNgram = Callable[
    [NgramBatch, torch.Tensor, torch.Tensor, Mapping[str, int] | None, Set[str]],
    Mapping[str, int] | None,
]
"""A function of a batch, token_ids [max_reqs, max_len], their numbers of tokens, the rows so far
and the new ids. It writes the tokens of new requests to their rows, moves the tokens of other
requests whose row has changed, and returns the row of each request."""
GatherLogprobs = Callable[
    [torch.Tensor, Mapping[int, Sequence[int]], torch.Tensor], LogprobsTensors | None
]
"""A function of logits [rows, vocab_size], the ids that some rows ask for, and the sampled tokens
[rows]. It returns the log-probabilities of both, or None if no row asks for any."""
FillTail = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
"""A function of a buffer, indices [n] and a length. It returns that many numbers of the buffer: the
indices, then the last index repeated."""
TokenTypes = Callable[[Mapping[int, int], torch.Tensor, torch.Tensor, int], dict[str, torch.Tensor]]
"""A function of the start of the second text of some requests, the lengths of all requests on the
device and on the host, and the number of requests. It returns a dict: token_type_ids, [tokens of
all] int32."""
BinCount = Callable[
    [np.ndarray, torch.Tensor, np.ndarray, np.ndarray, torch.Tensor, torch.Tensor], None
]
"""A function of req_indices, all_token_ids, prompt_lens, prefill_lens and two tables. It counts the
tokens of these requests from the start: those of prompts in `prompt_bin_mask`, those of answers in
`output_bin_counts`."""


@dataclass(frozen=True)
class StepSide:
    """The functions that bring a step's inputs to the device, and its tokens back (sync_free)."""

    inputs_class: type[DeviceInputs]
    read_back: Callable[[torch.Tensor], Awaited]
    apply_bad_words: Callable[[torch.Tensor, BadWordsTokenIds, Sequence[Sequence[int]]], None]
    """Forbids tokens in logits [rows, vocab_size], given the forbidden sequences of some rows, and
    the tokens that each row has generated so far."""
    logprobs_of_steps: Callable[[], GatherLogprobs]
    """Returns a function that an engine calls in each step."""
    run_ar: RunAr
    update_ngram: UpdateNgram
    """Brings the tokens of requests to the device, by their rows."""
    bincount: BinCount
    """Counts the tokens of prompts and of answers so far, for penalties."""
    causal_conv1d_fn: Callable[..., torch.Tensor]
    """The short convolution of Gated DeltaNet layers in steps with prompts."""
    conv_can_be_captured: bool
    """True if a graph can contain the convolution."""
    logits_rows: FillTail
    """Returns the rows for which a step computes logits, in a buffer whose tail has valid rows
    too."""
    init_model_kwargs: TokenTypes
    """Computes the token types of pooling requests: 0 for a token of the first text, 1 for one of
    the second."""
    steps_ahead: int
    """How many later steps are queued before the tokens of a step are read."""


@dataclass(frozen=True)
class ChunkSide:
    """The choice of who makes the chunk tables of Gated DeltaNet layers: the metadata builder, or
    the rule that uses them (gdn_precompute)."""

    tables: Tables | None
    """"host" if the metadata builder plans them; None leaves them to `rule`."""
    rule: Callable[..., tuple[torch.Tensor, torch.Tensor | None]]
    """The gated delta rule over whole prompts, chunk by chunk. Returns (o, final state or None)."""


@dataclass(frozen=True)
class MaskSide:
    """The builder of FlexAttention's block mask, and whether graphs contain it
    (flex_full_graph)."""

    builder_class: type[MetadataBuilder]
    can_be_captured: bool
    """True if a graph can contain the builder and the layers."""
