"""Runs the steps that the scheduler decides on. Decodes run in graphs, and so do small steps with
prompts if the engine's config names sizes for them; all other steps run eagerly."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from solutions.flex_graph.steps.limits import (
    checked_capture_sizes,
    default_capture_sizes,
    size_for,
)

from .model.model import Model
from .requests.step_batch import StepBatch
from .requests.step_view import StepView
from .run.backends import backends_of
from .run.captured_step import Sampled, StepGraphs
from .run.sides import Awaited
from .sampling.counted import CountedRequests
from .sampling.sampler import SampledStep, Sampler
from .seams import Seams
from .speculation.drafted_inputs import DraftedInputs

ROWS_TOGETHER = 8
"""Eager steps compute logits for a multiple of this many rows."""


class EngineRunner:
    """A runner of steps on the device. It first captures its graphs: a decode step for each of
    `capture_sizes`, a step of any requests for each of `prefill_sizes`. The caches outlive it."""

    def __init__(self, model: Model, seams: Seams) -> None:
        config = model.config
        limits = config.limits
        self.model, self.seams = model, seams
        self.inputs = seams.step.inputs_class(
            limits, config.model.vocab_size, model.device, config.num_drafts
        )
        self.backends = backends_of(model, seams)
        self.sampler = Sampler(seams.step)
        self.counted = CountedRequests(seams.step, self.inputs.tables, bool(config.num_drafts))
        most_rows = -(-limits.max_num_seqs // ROWS_TOGETHER) * ROWS_TOGETHER
        self._logits_rows = torch.zeros(most_rows, dtype=torch.int32, device=model.device)
        sizes = config.capture_sizes
        if sizes is None:
            sizes = default_capture_sizes(limits, limits.max_num_seqs)
        self.capture_sizes = checked_capture_sizes(sizes, limits)
        # Decode steps have one token of each request, or several with drafts.
        self.of_decodes = DraftedInputs(self.inputs) if config.num_drafts else self.inputs
        width = self.of_decodes.tokens_of_row
        self.captured = {
            size: StepGraphs(model, self.backends, self.of_decodes, size * width)
            for size in reversed(self.capture_sizes)
        }
        self.prefill_sizes = checked_capture_sizes(config.prefill_sizes, limits)
        self.captured_prefills = {
            size: StepGraphs(model, self.backends, self.inputs, size, limits.max_num_seqs)
            for size in reversed(self.prefill_sizes)
        }

    def run(self, batch: StepBatch, padded_rows: int = 0) -> SampledStep:
        """Queues the step, and a copy of its tokens to the host. With `padded_rows` a decode runs
        in a graph for at least that many rows, so that all ranks replay the same one."""
        self.counted.update(batch)
        self.inputs.upload(batch)
        view = StepView.of(batch)
        captured = self._captured_for(batch, padded_rows)
        if captured is None:
            sampled = self._run_eagerly(batch, view)
        else:
            sampled = captured.replay(view, len(batch.sampling_rows))
        return self.sampler.sample(batch, sampled)

    def _captured_for(self, batch: StepBatch, padded_rows: int) -> StepGraphs | None:
        """Returns the smallest graphs that the step fits into, or None if it fits into none."""
        if batch.is_decode:
            size = size_for(max(batch.graph_size, padded_rows), self.capture_sizes)
            if size is not None:
                return self.captured[size]
        if batch.is_drafted:
            return None
        size = size_for(batch.num_tokens, self.prefill_sizes)
        return None if size is None else self.captured_prefills[size]

    def reset(self) -> None:
        """Resets the state of an interrupted step. Call it with the device idle."""
        for backend in self.backends.values():
            backend.reset()
        self.counted.reset()

    def _run_eagerly(self, batch: StepBatch, view: StepView) -> Sampled:
        inputs = self.of_decodes if batch.is_drafted else self.inputs
        inputs.prepare(batch.num_tokens)
        num_rows = len(batch.sampling_rows)
        # A step with drafts samples after each of its tokens.
        rows = None if batch.is_drafted else self._rows_to_the_end(num_rows)
        of_model = inputs.model_inputs(batch.num_tokens)
        logits = self.model.forward(of_model, self._metadata(view), rows)
        logits = logits[: num_rows * inputs.tokens_of_row]
        return Sampled(logits, inputs.choose(logits), inputs)

    def pool(self, batch: StepBatch, text_starts: Mapping[int, int]) -> Awaited:
        """Returns the normalised hidden state [R, hidden_size] of the last token of each of the R
        requests, as a copy in flight to the host. All tokens of these requests must be in the
        batch. `text_starts` has, for some rows, the position at which the second text begins."""
        self.inputs.upload(batch)
        num_rows = len(batch.rows)
        step = self.seams.step
        types = None
        if self.model.config.model.architecture.token_types:
            lengths = torch.from_numpy(batch.seq_lens)
            on_device = self.inputs.seq_lens
            kwargs = step.init_model_kwargs(text_starts, on_device, lengths, num_rows)
            types = kwargs["token_type_ids"]
        inputs = self.inputs.model_inputs(batch.num_tokens)
        metadata = self._metadata(StepView.of(batch))
        hidden = self.model.hidden(inputs, metadata, self._rows_to_the_end(num_rows), types)
        return step.read_back(self.model.normed(hidden)[:num_rows])

    def _metadata(self, view: StepView) -> dict[str, object]:
        metadata: dict[str, object] = {}
        for backend in self.backends.values():
            metadata |= backend.build(view, self.inputs)
        return metadata

    def _rows_to_the_end(self, num_rows: int) -> torch.Tensor:
        """Returns the indices of the tokens that are computed after the last layer's mixing: the
        tokens that sample, then the last of them repeated, so that products meet few row counts."""
        if not num_rows:
            return self._logits_rows[:0]
        padded = -(-num_rows // ROWS_TOGETHER) * ROWS_TOGETHER
        indices = self.inputs.logits_rows[:num_rows]
        return self.seams.step.logits_rows(self._logits_rows, indices, padded)
