"""Warm-up, capture and steps of a model, whatever is captured of a step."""

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
    """All that a runner knows of an attention backend. One lives as long as its runner."""

    def __init__(self, limits: Limits, device: torch.device, mask: Mask) -> None: ...

    def build(self, common: CommonAttentionMetadata) -> AttentionMetadata:
        """What the layers read in this step."""

    def build_for_cudagraph_capture(self, common: CommonAttentionMetadata) -> AttentionMetadata:
        """The same for a graph, which is replayed with batches of other lengths."""


Capture = TypeVar("Capture")


class StepRunner(ABC, Generic[Capture]):
    """After `capture_model` a step replays the smallest graph that holds its tokens, and runs
    eagerly where none does. Layers that see the same share one builder. What there is of a size,
    one graph or several, is a `Capture`."""

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
        """Why there is not a graph for every size."""

    def capture_model(self) -> None:
        """Captures the sizes that have no graph yet, the largest first.

        What goes wrong then is no reason to serve nobody: it is warned of and kept as
        `capture_error`. The graphs that there are stay in use, what they don't hold runs eagerly,
        and another call tries again. CaptureError, before anything is touched, while a graph is
        being captured.
        """
        self._refuse_during_a_capture()
        self.capture_error = None
        missing = [size for size in self.capture_sizes if size not in self.captured]
        for num_tokens in reversed(missing):
            try:
                self._warmup_and_capture(num_tokens, self.limits.max_model_len)
            except Exception as error:
                # An error that is kept would keep the memory of all that it went through.
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
        """[batch.num_tokens, vocab_size]: the logits, until the next step overwrites them.

        ValueError, before anything is touched, for a batch that the limits or the vocabulary rule
        out, and for one without any tokens.
        """
        if batch.num_tokens == 0:
            raise ValueError("a step of 0 tokens: there is nothing to compute, skip it")
        self.inputs.upload(batch)
        size = size_for(batch.num_tokens, sorted(self.captured))
        if size is None:
            return self._run_eagerly(batch)
        return self._replay(self.captured[size], batch)[: batch.num_tokens]

    def _refuse_during_a_capture(self) -> None:
        """Captures nothing that matters: inside another capture that is refused, and the warm-up,
        whose work would be recorded there, doesn't begin."""
        with current().graph().capture():
            self.inputs.slot_mapping.fill_(-1)

    def _warmup_and_capture(self, num_tokens: int, profile_seq_lens: int) -> None:
        """Both with the same shapes and lengths: what the one compiles is what the other needs, and
        in a capture nothing can be compiled."""
        self.inputs.upload(profile_batch(num_tokens, profile_seq_lens, self.limits))
        # Somebody else's keys and values are in those blocks.
        self.inputs.slot_mapping.fill_(-1)
        common = self.inputs.common(num_tokens, profile_seq_lens)
        self._forward(num_tokens, self._metadata(common, for_capture=True))
        self.captured[num_tokens] = self._capture(common)

    @abstractmethod
    def _capture(self, common: CommonAttentionMetadata) -> Capture:
        """A step of common.num_actual_tokens rows, to be replayed as often as there are batches."""

    @abstractmethod
    def _replay(self, captured: Capture, batch: ScheduledBatch) -> torch.Tensor:
        """[size, vocab_size], of which the first batch.num_tokens rows are the batch's."""

    def _run_eagerly(self, batch: ScheduledBatch) -> torch.Tensor:
        return self._forward(batch.num_tokens, self._metadata(self._common_of(batch)))

    def _common_of(self, batch: ScheduledBatch) -> CommonAttentionMetadata:
        """What builders are told of a batch, without rows that pad it: only a graph needs them."""
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
        """By layer name, what the layer reads in this step. Builds once for each mask."""
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
        """The logits [num_tokens, vocab_size] of what lies in `inputs`."""
        return self.model.forward(self.inputs.model_inputs(num_tokens), attn_metadata)


class ProfileBatch(ScheduledBatch):
    """A batch whose requests all lie in the same blocks, which it writes nothing to."""

    def _check_slots(self, limits: Limits) -> None:
        """Every batch is allowed: its slots are not used."""


def profile_batch(num_tokens: int, seq_len: int, limits: Limits) -> ScheduledBatch:
    """The batch of a warm-up and of a capture: at most `num_tokens` tokens, spread over as many
    requests as there can be, each of length `seq_len`. It lies in the cache's blocks as they come:
    read them, and write to none of them.

    ValueError for lengths that no request can have: the tables have no room for them.
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
