"""The eight sites of a step, planned together: one pinned upload for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch

from solutions.common.packed_upload import DeviceArrays, Plan, upload_plans
from solutions.common.staging_ring import StagingRing

from ..kernels.logprobs import LogprobsTensors
from ..packed.bad_words import BadWords, plan_bad_words
from ..packed.logprobs import plan_logprobs
from ..packed.ngram import NgramPlan, plan_ngram_update
from ..packed.penalties import plan_bincount
from ..packed.token_types import plan_token_types
from ..sites import causal_conv1d, data_parallel, kv_sharing
from .conv_chunks import ConvMetadata, plan_conv_metadata
from .ngram_batch import NgramBatch
from .step_inputs import SiteInputs
from .tables import RequestTables
from .workload import ScheduledStep


class StepPlans(NamedTuple):
    """The plans of one step's sites. Their types say what `apply` takes and returns."""

    ngram: NgramPlan
    penalties: Plan[[torch.Tensor, torch.Tensor, torch.Tensor], None]
    token_types: Plan[[torch.device], torch.Tensor]
    convolution: Plan[[], ConvMetadata]
    bad_words: Plan[[torch.Tensor], None]
    logprobs: Plan[[torch.Tensor, torch.Tensor], LogprobsTensors | None]


class PackedSites:
    """The calls of one step's sites, planned together for one upload, with the same names as in
    `SeparateSites`.

    The constructor plans all sites. It raises ValueError for whatever one of them refuses, before
    any upload and with no table changed. Call `upload` before the other methods.
    """

    run_ar = staticmethod(data_parallel._run_ar)
    causal_conv1d_fn = staticmethod(causal_conv1d.causal_conv1d_fn)

    def __init__(
        self,
        scheduled: ScheduledStep,
        inputs: SiteInputs,
        tables: RequestTables,
        ring: StagingRing,
    ) -> None:
        self.inputs, self.tables, self.ring = inputs, tables, ring
        num_requests, vocab_size = tables.output_bin_counts.shape
        rows = inputs.recounted
        batch = NgramBatch(scheduled.names, scheduled.token_table, scheduled.seq_lens)
        bad_words = BadWords.of(scheduled.bad_words, scheduled.num_requests, vocab_size)
        self.plans = StepPlans(
            ngram=plan_ngram_update(batch, tables.row_of, scheduled.arrived),
            penalties=plan_bincount(
                rows,
                scheduled.prompt_lens[rows],
                scheduled.seq_lens[rows],
                *tables.token_ids.shape,
            ),
            token_types=plan_token_types(
                scheduled.token_type_starts,
                scheduled.sequence_lens,
                len(scheduled.sequence_lens),
            ),
            convolution=plan_conv_metadata(scheduled.query_start_loc, scheduled.cache_indices),
            bad_words=plan_bad_words(bad_words, scheduled.past_tokens),
            logprobs=plan_logprobs(scheduled.asked_ids, num_requests, vocab_size),
        )

    def upload(self) -> DeviceArrays:
        """Uploads the arrays of all plans and the step's own inputs, and returns the step's own
        inputs."""
        plans: Iterable[Plan[..., object]] = self.plans
        arrays = {"inputs": self.inputs.arrays}
        arrays |= {name: plan.arrays for name, plan in zip(StepPlans._fields, plans, strict=True)}
        self.on_device = upload_plans(arrays, self.tables.token_ids.device, self.ring)
        return self.on_device["inputs"]

    def update_ngram(self) -> None:
        plan, tables = self.plans.ngram, self.tables
        plan.apply(self.on_device["ngram"], tables.token_ids, tables.num_tokens)
        tables.row_of = plan.req_id_to_row

    def bincount(self) -> None:
        tables = self.tables
        counts = tables.prompt_bin_mask, tables.output_bin_counts
        self.plans.penalties.apply(self.on_device["penalties"], tables.token_ids, *counts)

    def token_types(self) -> torch.Tensor:
        """Returns the type of each token, 0 or 1: [num_tokens] int32 on the device."""
        device = self.tables.token_ids.device
        return self.plans.token_types.apply(self.on_device["token_types"], device)

    def conv_metadata(self) -> ConvMetadata:
        return self.plans.convolution.apply(self.on_device["convolution"])

    def logits_rows(self, num_padded: int) -> torch.Tensor:
        """Returns the indices of the tokens whose logits are needed, padded: [num_padded] int32 on
        the device."""
        buffer, indices = self.tables.logits_rows, self.on_device["inputs"]["logits_indices"]
        return kv_sharing._prepare_kv_sharing_fast_prefill(buffer, indices, num_padded)

    def apply_bad_words(self, logits: torch.Tensor) -> None:
        self.plans.bad_words.apply(self.on_device["bad_words"], logits)

    def logprobs(self, logits: torch.Tensor, sampled: torch.Tensor) -> LogprobsTensors | None:
        """Returns the log-probabilities of the sampled tokens and of the requested ids; None if the
        step's `asked_ids` is empty."""
        return self.plans.logprobs.apply(self.on_device["logprobs"], logits, sampled)
