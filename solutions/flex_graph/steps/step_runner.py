"""Warm-up, capture and steps of a model, the same for runners that capture a step whole or in
pieces."""

from __future__ import annotations

import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch

from debubble.accelerator import current

from ..builder import FlexAttentionMetadataBuilder
from ..mask import AttentionMetadata, Mask
from ..model.model import Decoder
from .batch import CommonAttentionMetadata
from .inputs import StepInputs
from .limits import Limits, checked_capture_sizes, default_capture_sizes, size_for
from .scheduled import ScheduledBatch


class MetadataBuilder(Protocol):
    """A builder of a step's metadata for the layers with one mask, as a runner calls it. It lives
    as long as its runner."""

    def __init__(self, limits: Limits, device: torch.device, mask: Mask) -> None: ...

    def build(self, common: CommonAttentionMetadata) -> AttentionMetadata:
        """Returns the metadata that the layers read in this step."""

    def build_for_cudagraph_capture(self, common: CommonAttentionMetadata) -> AttentionMetadata:
        """Returns the metadata that a captured graph reads, which is replayed with batches of other
        lengths."""


Capture = TypeVar("Capture")


class StepRunner(ABC, Generic[Capture]):
    """A runner of a model's steps. After `capture_model` a step replays the smallest graph that
    holds its tokens; if there is none, it runs eagerly. Layers with the same mask share one
    builder. A `Capture` is all that was captured for one size: one graph or several."""

    def __init__(
        self,
        model: Decoder,
        limits: Limits,
        device: torch.device,
        capture_sizes: Iterable[int] | None = None,
        builder_class: type[MetadataBuilder] = FlexAttentionMetadataBuilder,
    ) -> None:
        if capture_sizes is None:
            capture_sizes = default_capture_sizes(limits)
        self.model, self.limits = model, limits
        self.capture_sizes = checked_capture_sizes(capture_sizes, limits)
        self.inputs = StepInputs(limits, device, model.config.vocab_size)
        masks = dict.fromkeys(model.mask_of.values())
        self.builders = {mask: builder_class(limits, device, mask) for mask in masks}
        self.captured: dict[int, Capture] = {}
        self.capture_error: Exception | None = None
        """The error that stopped the last `capture_model`, so that some sizes have no graph; None
        if there was none."""

    def capture_model(self) -> None:
        """Captures a step of each capture size that has no graph yet, the largest first.

        A failure doesn't end serving: it is reported as a warning and stored as `capture_error`.
        The graphs captured so far stay in use, larger steps run eagerly, and another call tries
        again. Raises CaptureError, before anything is changed, while a graph is being captured.
        """
        self._refuse_during_a_capture()
        self.capture_error = None
        missing = [size for size in self.capture_sizes if size not in self.captured]
        for num_tokens in reversed(missing):
            try:
                self._warmup_and_capture(num_tokens, self.limits.max_model_len)
            except Exception as error:
                # A stored error would keep the memory of all frames that it passed.
                traceback.clear_frames(error.__traceback__)
                self.capture_error = error
                warnings.warn(
                    f"no graph for steps of {num_tokens} tokens or less, which run eagerly if no "
                    f"larger graph is there: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return

    def step(self, batch: ScheduledBatch) -> torch.Tensor:
        """Runs a step and returns its logits [batch.num_tokens, vocab_size], which the next step
        overwrites.

        Raises ValueError, before anything is changed, for a batch that the limits or the vocabulary
        rule out, and for a batch without tokens.
        """
        if batch.num_tokens == 0:
            raise ValueError("a step of 0 tokens: there is nothing to compute, skip it")
        self.inputs.upload(batch)
        size = size_for(batch.num_tokens, sorted(self.captured))
        if size is None:
            return self._run_eagerly(batch)
        return self._replay(self.captured[size], batch)[: batch.num_tokens]

    def _refuse_during_a_capture(self) -> None:
        """Raises CaptureError if a graph is being captured, by trying to capture work that does no
        harm. So the warm-up, whose work would be recorded in that graph, doesn't begin."""
        with current().graph().capture():
            self.inputs.slot_mapping.fill_(-1)

    def _warmup_and_capture(self, num_tokens: int, profile_seq_lens: int) -> None:
        """Runs a step of `num_tokens` tokens eagerly, and then captures it with the same shapes and
        lengths: the warm-up compiles all kernels of the capture, in which nothing can be
        compiled."""
        self.inputs.upload(profile_batch(num_tokens, profile_seq_lens, self.limits))
        # Those blocks may have the keys and values of other requests.
        self.inputs.slot_mapping.fill_(-1)
        common = self.inputs.common(num_tokens, profile_seq_lens)
        self._forward(num_tokens, self._metadata(common, for_capture=True))
        self.captured[num_tokens] = self._capture(common)

    @abstractmethod
    def _capture(self, common: CommonAttentionMetadata) -> Capture:
        """Captures a step of common.num_actual_tokens tokens, to be replayed for any batch, and
        returns the capture."""

    @abstractmethod
    def _replay(self, captured: Capture, batch: ScheduledBatch) -> torch.Tensor:
        """Replays a captured step for `batch`, which is uploaded, and returns the logits [size,
        vocab_size]; the first batch.num_tokens rows are the batch's."""

    def _run_eagerly(self, batch: ScheduledBatch) -> torch.Tensor:
        return self._forward(batch.num_tokens, self._metadata(self._common_of(batch)))

    def _common_of(self, batch: ScheduledBatch) -> CommonAttentionMetadata:
        """Returns the uploaded batch as the builders take it, without rows that pad it: only a
        graph needs these."""
        common = self.inputs.common(batch.num_tokens, batch.max_seq_len)
        num_reqs = len(batch.query_lens)
        return replace(
            common,
            query_start_loc=common.query_start_loc[: num_reqs + 1],
            seq_lens=common.seq_lens[:num_reqs],
            block_table=common.block_table[:num_reqs],
        )

    def _metadata(
        self, common: CommonAttentionMetadata, for_capture: bool = False
    ) -> dict[str, AttentionMetadata]:
        """Returns the metadata of each layer in this step, by layer name. Builds once for each
        mask."""
        of_mask = {
            mask: builder.build_for_cudagraph_capture(common)
            if for_capture
            else builder.build(common)
            for mask, builder in self.builders.items()
        }
        return {name: of_mask[mask] for name, mask in self.model.mask_of.items()}

    def _forward(
        self, num_tokens: int, attn_metadata: dict[str, AttentionMetadata]
    ) -> torch.Tensor:
        """Returns the logits [num_tokens, vocab_size] of the batch in `inputs`."""
        return self.model.forward(self.inputs.model_inputs(num_tokens), attn_metadata)


class ProfileBatch(ScheduledBatch):
    """A batch for a warm-up, whose requests all have the same blocks, to which nothing is
    written."""

    def _check_slots(self, limits: Limits) -> None:
        """Accepts every batch, even with two tokens in one slot, since nothing is written to the
        slots."""


def profile_batch(num_tokens: int, seq_len: int, limits: Limits) -> ScheduledBatch:
    """Returns the batch for a warm-up and a capture: at most `num_tokens` tokens, spread over as
    many requests as possible, each of length `seq_len`. Its blocks are the cache's first ones,
    which may belong to other requests: read them, but don't write to them.

    Raises ValueError for a length that no request can have, since the tables have no room for it.
    """
    if not 1 <= seq_len <= limits.max_model_len:
        raise ValueError(
            f"profile_seq_lens {seq_len}: requests have 1 to max_model_len tokens, which is "
            f"{limits.max_model_len}"
        )
    num_reqs = min(num_tokens, limits.max_num_seqs)
    shares = np.full(num_reqs, num_tokens // num_reqs)
    shares[: num_tokens % num_reqs] += 1
    query_lens = shares.clip(max=seq_len)
    pages = np.arange(-(-seq_len // limits.block_size)) % (limits.num_gpu_blocks - 1) + 1
    return ProfileBatch(
        token_ids=np.zeros(query_lens.sum(), np.int32),
        query_lens=query_lens.astype(np.int32),
        seq_lens=np.full(num_reqs, seq_len, np.int32),
        block_table=np.broadcast_to(pages.astype(np.int32), (num_reqs, len(pages))),
    )
