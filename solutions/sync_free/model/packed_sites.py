"""The eight sites of a step, planned together: one pinned upload for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch

from solutions.common.packed_upload import DeviceArrays, Plan, upload_plans
from solutions.common.staging_ring import StagingRing

from ..kernels.logprobs import LogprobsTensors, score_tokens
from ..sites.bad_words import plan_bad_words
from ..sites.chosen_tokens import ChosenTokens, plan_chosen_tokens
from ..sites.ngram import plan_ngram_update
from ..sites.penalties import plan_bincount
from ..sites.token_types import plan_token_types
from .conv_chunks import ConvMetadata, plan_conv_metadata
from .ngram_batch import NgramBatch
from .separate_sites import SeparateSites
from .step_inputs import SiteInputs
from .tables import RequestTables
from .workload import ScheduledStep


class StepPlans(NamedTuple):
    """The plans of one step's sites. Their types say what `apply` takes and returns."""

    ngram: Plan[[torch.Tensor, torch.Tensor], None]
    penalties: Plan[..., None]
    token_types: Plan[[torch.device], torch.Tensor]
    convolution: Plan[[], ConvMetadata]
    bad_words: Plan[[torch.Tensor], None]
    chosen_tokens: Plan[[torch.Tensor], ChosenTokens]


class PackedSites(SeparateSites):
    """The calls of one step's sites, planned together for one upload. Sites that upload nothing are
    called as in `SeparateSites`.

    The constructor plans all sites. It raises ValueError for whatever one of them refuses, before
    any upload and with no table changed. Call `upload` before the other methods.
    """

    def __init__(
        self,
        scheduled: ScheduledStep,
        inputs: SiteInputs,
        tables: RequestTables,
        ring: StagingRing,
    ) -> None:
        super().__init__(scheduled, inputs, tables)
        self.ring = ring
        num_requests, vocab_size = tables.output_bin_counts.shape
        rows = inputs.recounted
        self.batch = NgramBatch(scheduled.names, scheduled.token_table, scheduled.seq_lens)
        self.plans = StepPlans(
            ngram=plan_ngram_update(self.batch, tables.row_of, scheduled.arrived),
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
            bad_words=plan_bad_words(
                scheduled.bad_words, scheduled.past_tokens, scheduled.num_requests, vocab_size
            ),
            chosen_tokens=plan_chosen_tokens(scheduled.asked_ids, num_requests, vocab_size),
        )

    def upload(self) -> DeviceArrays:
        """Uploads the arrays of all plans and the step's own inputs, and returns the step's own
        inputs."""
        plans: Iterable[Plan[..., object]] = self.plans
        arrays = {"inputs": self.inputs.arrays}
        arrays |= {name: plan.arrays for name, plan in zip(StepPlans._fields, plans, strict=True)}
        self.of_plan = upload_plans(arrays, self.device, self.ring)
        self.on_device = self.of_plan["inputs"]
        return self.on_device

    def update_ngram(self) -> None:
        tables = self.tables
        self.plans.ngram.apply(self.of_plan["ngram"], tables.token_ids, tables.num_tokens)
        tables.row_of = self.batch.rows_by_req_id() or tables.row_of

    def bincount(self) -> None:
        tables = self.tables
        counts = tables.prompt_bin_mask, tables.output_bin_counts
        self.plans.penalties.apply(self.of_plan["penalties"], tables.token_ids, *counts)

    def token_types(self) -> torch.Tensor:
        return self.plans.token_types.apply(self.of_plan["token_types"], self.device)

    def conv_metadata(self) -> ConvMetadata:
        return self.plans.convolution.apply(self.of_plan["convolution"])

    def apply_bad_words(self, logits: torch.Tensor) -> None:
        self.plans.bad_words.apply(self.of_plan["bad_words"], logits)

    def logprobs(self, logits: torch.Tensor, sampled: torch.Tensor) -> LogprobsTensors | None:
        if not self.scheduled.asked_ids:
            return None
        ids, counts = self.plans.chosen_tokens.apply(self.of_plan["chosen_tokens"], sampled)
        return LogprobsTensors(ids, *score_tokens(logits, ids, counts))
