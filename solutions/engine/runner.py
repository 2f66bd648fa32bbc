"""Runs the steps that a scheduler decides on: decodes in graphs, and steps with prompts too where
they are small enough and an engine is asked for that; all else eagerly."""

from __future__ import annotations

from solutions.flex_graph.steps.limits import (
    checked_capture_sizes,
    default_capture_sizes,
    size_for,
)

from .model.model import Model
from .requests.step_batch import StepBatch
from .requests.step_view import StepView
from .run.backends import backends_of
from .run.captured_step import CapturedStep, Sampled
from .run.sampler import SampledStep, Sampler
from .sampling.counted import CountedRequests
from .seams import Seams


class EngineRunner:
    """Queues steps on the device. All graphs are captured when a runner is made: one decode step
    for each of `capture_sizes`, and a step of any requests for each of `prefill_sizes`. The model's
    caches and states outlive it."""

    def __init__(self, model: Model, seams: Seams) -> None:
        config = model.config
        limits = config.limits
        self.model, self.seams = model, seams
        self.inputs = seams.step.inputs_class(limits, config.model.vocab_size, model.device)
        self.backends = backends_of(model, seams)
        self.sampler = Sampler(seams.step, self.inputs)
        self.counted = CountedRequests(seams.step, self.inputs.tables)
        sizes = config.capture_sizes
        if sizes is None:
            sizes = default_capture_sizes(limits, limits.max_num_seqs)
        self.capture_sizes = checked_capture_sizes(sizes, limits)
        self.captured = {
            size: CapturedStep(model, self.backends, self.inputs, size)
            for size in reversed(self.capture_sizes)
        }
        self.prefill_sizes = checked_capture_sizes(config.prefill_sizes, limits)
        self.captured_prefills = {
            size: CapturedStep(model, self.backends, self.inputs, size, limits.max_num_seqs)
            for size in reversed(self.prefill_sizes)
        }

    def run(self, batch: StepBatch, padded_rows: int = 0) -> SampledStep:
        """Queues the step, and a copy of its tokens to the host. With `padded_rows` a decode runs
        in a graph for at least so many rows, as other ranks do."""
        self.counted.update(batch)
        self.inputs.upload(batch)
        view = StepView.of(batch)
        captured = self._captured_for(batch, padded_rows)
        if captured is None:
            sampled = self._run_eagerly(batch, view)
        else:
            sampled = captured.replay(view, len(batch.sampling_rows))
        return self.sampler.sample(batch.sampling_rows, sampled)

    def _captured_for(self, batch: StepBatch, padded_rows: int) -> CapturedStep | None:
        """The smallest graphs that hold the step; None where none do."""
        if batch.is_decode:
            size = size_for(max(batch.num_tokens, padded_rows), self.capture_sizes)
            if size is not None:
                return self.captured[size]
        size = size_for(batch.num_tokens, self.prefill_sizes)
        return None if size is None else self.captured_prefills[size]

    def begin_anew(self) -> None:
        """After a step that stopped halfway, once the device is idle."""
        for backend in self.backends.values():
            backend.begin_anew()
        self.counted.begin_anew()

    def _run_eagerly(self, batch: StepBatch, view: StepView) -> Sampled:
        metadata: dict[str, object] = {}
        for backend in self.backends.values():
            metadata |= backend.build(view, self.inputs)
        logits_rows = self.inputs.logits_rows[: len(batch.sampling_rows)]
        inputs = self.inputs.model_inputs(batch.num_tokens)
        logits = self.model.forward(inputs, metadata, logits_rows)
        return Sampled(logits, self.inputs.choose(logits))
