"""The eight sites of a step, each called by itself: before or after the change."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module

import torch

from solutions.common.packed_upload import DeviceArrays, upload_packed
from solutions.common.read_back import ReadBack

from ..kernels.logprobs import LogprobsTensors
from .conv_chunks import ConvMetadata, prepare_conv_metadata
from .ngram_batch import NgramBatch
from .step_inputs import SiteInputs
from .tables import RequestTables
from .workload import ScheduledStep

SITES = (
    "ngram",
    "penalties",
    "token_types",
    "causal_conv1d",
    "data_parallel",
    "kv_sharing",
    "bad_words",
    "logprobs",
)
"""Names of the eight sites: each is a module with this name in `before` and in `sites`."""


class SeparateSites:
    """The calls of one step's sites, each by itself: a site uploads what it needs when it is
    called."""

    def __init__(
        self,
        scheduled: ScheduledStep,
        inputs: SiteInputs,
        tables: RequestTables,
        fixed: Collection[str] = SITES,
    ) -> None:
        """Chooses the code of each site: after the change for the sites in `fixed`, before it for
        the rest."""
        self.scheduled, self.inputs, self.tables = scheduled, inputs, tables
        self.device = tables.token_ids.device
        system = __name__.rpartition(".model.")[0]
        self.site = {
            name: import_module(f"{system}.{'sites' if name in fixed else 'before'}.{name}")
            for name in SITES
        }
        self.plans_convolution = "causal_conv1d" in fixed

    @property
    def run_ar(self) -> Callable[..., ReadBack]:
        return self.site["data_parallel"]._run_ar

    def upload(self) -> DeviceArrays:
        """Uploads the step's own inputs and returns them. Each site uploads what it needs when it
        is called."""
        self.on_device = upload_packed(self.inputs.arrays, self.device)
        return self.on_device

    def update_ngram(self) -> None:
        scheduled, tables = self.scheduled, self.tables
        batch = NgramBatch(scheduled.names, scheduled.token_table, scheduled.seq_lens)
        tables.row_of = self.site["ngram"].update_ngram_gpu_tensors_incremental(
            batch, tables.token_ids, tables.num_tokens, tables.row_of, scheduled.arrived
        )

    def bincount(self) -> None:
        rows, tables = self.inputs.recounted, self.tables
        self.site["penalties"].bincount(
            rows,
            tables.token_ids,
            self.scheduled.prompt_lens[rows],
            self.scheduled.seq_lens[rows],
            tables.prompt_bin_mask,
            tables.output_bin_counts,
        )

    def token_types(self) -> torch.Tensor:
        """Returns the type of each token, 0 or 1: [num_tokens] int32 on the device."""
        model_kwargs = self.site["token_types"]._init_model_kwargs(
            self.scheduled.token_type_starts,
            self.on_device["sequence_lens"],
            torch.from_numpy(self.scheduled.sequence_lens),
            len(self.scheduled.sequence_lens),
        )
        return model_kwargs["token_type_ids"]

    def conv_metadata(self) -> ConvMetadata | None:
        """Returns the step's metadata for the convolution; None before the change, where each layer
        makes its own."""
        if not self.plans_convolution:
            return None
        return prepare_conv_metadata(
            self.scheduled.query_start_loc, self.device, self.scheduled.cache_indices
        )

    @property
    def causal_conv1d_fn(self) -> Callable[..., torch.Tensor]:
        return self.site["causal_conv1d"].causal_conv1d_fn

    def logits_rows(self, num_padded: int) -> torch.Tensor:
        """Returns the indices of the tokens whose logits are needed, padded: [num_padded] int32 on
        the device."""
        return self.site["kv_sharing"]._prepare_kv_sharing_fast_prefill(
            self.tables.logits_rows, self.on_device["logits_indices"], num_padded
        )

    def apply_bad_words(self, logits: torch.Tensor) -> None:
        scheduled = self.scheduled
        self.site["bad_words"].apply_bad_words(logits, scheduled.bad_words, scheduled.past_tokens)

    def logprobs(self, logits: torch.Tensor, sampled: torch.Tensor) -> LogprobsTensors | None:
        """Returns the log-probabilities of the sampled tokens and of the requested ids; None if the
        step's `asked_ids` is empty."""
        return self.site["logprobs"].gather_specific_token_logprobs(
            logits, self.scheduled.asked_ids, sampled
        )
