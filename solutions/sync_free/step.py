"""A step that calls all eight sites, the same for every way of calling them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import torch

from debubble.contract.steps import named_step
from solutions.common.packed_upload import DeviceArrays
from solutions.common.read_back import ReadBack
from solutions.common.staging_ring import STEPS_IN_FLIGHT, StagingRing

from .kernels.logprobs import LogprobsTensors
from .model.config import StepConfig
from .model.data_parallel_group import DataParallelGroup
from .model.model import ConvModel
from .model.packed_sites import PackedSites
from .model.ranks import agreement_of
from .model.separate_sites import SITES, SeparateSites
from .model.step_inputs import SiteInputs, plan_inputs
from .model.tables import RequestTables
from .model.workload import ScheduledStep

FREQUENCY_PENALTY = 0.1
PADDED_TO = 8
"""The multiple that this rank pads its number of requests to."""
PIECEWISE_GRAPHS = 1
"""The highest graph mode that this rank can run in."""


class StepOutput(NamedTuple):
    """The result of a step, on the device, with a row for each request of its batch."""

    sampled: torch.Tensor
    """[num_requests] int64: the id of the token with the highest logit of each row, after penalties
    and bad words."""
    logprobs: LogprobsTensors | None
    """Log-probabilities of the sampled tokens and of the requested ids; None if the step's
    `asked_ids` is empty."""


class DecodeStep:
    """A model with its tables, which runs the steps of a workload in order."""

    def __init__(
        self,
        model: ConvModel,
        sites: Collection[str] | None = None,
        group: DataParallelGroup | None = None,
    ) -> None:
        """Chooses the code of the sites and the ranks.

        `sites` names the sites whose code is that after the change, each called by itself; None
        plans all of them together. `group` is the ranks that step side by side; None is a single
        rank. Raises ValueError for an unknown site.
        """
        unknown = [name for name in sites or () if name not in SITES]
        if unknown:
            raise ValueError(f"site {unknown[0]!r} is unknown: choose from {', '.join(SITES)}")
        self.model, self.config = model, model.config
        self.tables = RequestTables(model.config, model.device)
        self.group = group or DataParallelGroup.alone()
        self.sites_of = self._packed() if sites is None else self._separate(frozenset(sites))

    def _separate(self, fixed: frozenset[str]) -> Callable[..., SeparateSites]:
        return lambda scheduled, inputs: SeparateSites(scheduled, inputs, self.tables, fixed)

    def _packed(self) -> Callable[..., PackedSites]:
        ring = StagingRing((most_bytes(self.config),), torch.uint8, STEPS_IN_FLIGHT)
        return lambda scheduled, inputs: PackedSites(scheduled, inputs, self.tables, ring)

    def run(self, scheduled: ScheduledStep) -> StepOutput:
        """Queues the step `scheduled` and returns its output on the device, without waiting for
        it."""
        with named_step(f"{scheduled.num_requests} decodes"):
            return self._run(scheduled)

    def _run(self, scheduled: ScheduledStep) -> StepOutput:
        inputs = plan_inputs(scheduled, self.tables.row_of, self.config.vocab_size)
        sites = self.sites_of(scheduled, inputs)
        # The exchange between ranks starts first: its answer arrives while the rest is prepared.
        pending = self._ask_ranks(sites, scheduled)
        on_device = sites.upload()
        self._update_tables(sites, inputs, on_device)
        tokens = self.tables.token_ids.view(-1)[on_device["token_places"]]
        token_types = sites.token_types()
        metadata = sites.conv_metadata()
        rows = sites.logits_rows(agreement_of(pending.read()).num_tokens)

        def convolve(layer: int, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            states = self.tables.conv_states[layer]
            return sites.causal_conv1d_fn(
                x,
                weight,
                None,
                states,
                on_device["query_start_loc"],
                on_device["cache_indices"],
                on_device["has_initial_state"],
                "silu",
                metadata,
            )

        logits = self.model.forward(tokens, token_types, rows, convolve)
        return self._sample(sites, logits[: scheduled.num_requests])

    def _ask_ranks(self, sites: SeparateSites, scheduled: ScheduledStep) -> ReadBack:
        num_requests = scheduled.num_requests
        padded = -(-num_requests // PADDED_TO) * PADDED_TO
        return sites.run_ar(False, num_requests, padded, PIECEWISE_GRAPHS, self.group)

    def _update_tables(
        self, sites: SeparateSites, inputs: SiteInputs, on_device: DeviceArrays
    ) -> None:
        sites.update_ngram()
        inputs.write_new_tokens(on_device, self.tables)
        sites.bincount()

    def _sample(self, sites: SeparateSites, logits: torch.Tensor) -> StepOutput:
        logits.sub_(self.tables.output_bin_counts[: len(logits)], alpha=FREQUENCY_PENALTY)
        sites.apply_bad_words(logits)
        sampled = logits.argmax(-1)
        return StepOutput(sampled, sites.logprobs(logits, sampled))


def most_bytes(config: StepConfig) -> int:
    """Returns the most bytes that the uploads of one step take: a place and an id for each token of
    each request, and everything else that is uploaded for a request."""
    per_request = 16 * config.max_len + 32 * (config.asked_ids + config.bad_words) + 512
    return config.num_requests * per_request + 4096
