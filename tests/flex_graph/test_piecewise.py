"""Graphs between attentions: their number, the work between them, and the memory between them."""

from dataclasses import replace

import pytest
import torch

import debubble
from solutions.flex_graph import before
from solutions.flex_graph.builder import FlexAttentionMetadataBuilder
from solutions.flex_graph.model.config import FlexConfig
from solutions.flex_graph.model.model import Decoder
from solutions.flex_graph.piecewise import PiecewiseRunner
from solutions.flex_graph.runner import GraphRunner

from .attention_only import LIMITS
from .serving import Serving

CONFIG = replace(FlexConfig.tiny(), num_layers=3, windows=(None, 20))
BUILDERS = {
    "as it was": before.FlexAttentionMetadataBuilder,
    "of today": FlexAttentionMetadataBuilder,
}


@pytest.fixture(scope="module")
def model(accelerator):
    return Decoder(CONFIG, LIMITS, accelerator.device)


@pytest.fixture(scope="module")
def eager(accelerator, model):
    return GraphRunner(model, LIMITS, accelerator.device, capture_sizes=[])


@pytest.fixture(scope="module", params=BUILDERS)
def pieces(request, accelerator, model):
    builder_class = BUILDERS[request.param]
    runner = PiecewiseRunner(model, LIMITS, accelerator.device, [2, 8], builder_class)
    runner.capture_model()
    assert runner.capture_error is None
    return runner


def batches(seed, number, max_tokens=8):
    serving = Serving(LIMITS, seed)
    return [serving.next_step(max_tokens)[0] for _ in range(number)]


@pytest.mark.deep(2)
def test_steps_are_those_of_an_eager_runner(eager, pieces):
    """The logits of a piecewise runner equal those of an eager one, also for steps with more tokens
    than the largest graph."""
    for batch in [*batches(1, 6), *batches(2, 3, max_tokens=16)]:
        right = eager.step(batch).cpu()
        found = pieces.step(batch)
        assert found.shape == (batch.num_tokens, CONFIG.vocab_size)
        assert torch.allclose(found.cpu(), right, atol=1e-4, rtol=1e-4)


def test_a_step_is_a_graph_more_than_there_are_layers(accelerator, pieces):
    (batch,) = batches(3, 1)
    pieces.step(batch)
    with debubble.record(accelerator) as timeline:
        pieces.step(batch)
    counts = timeline.counts()
    assert counts["graph_launches"] == CONFIG.num_layers + 1
    assert timeline.hazards == []
    if accelerator.pin_memory:
        assert (counts["h2d_pinned"], counts["h2d_pageable"]) == (2, 0)
    waits = any(
        isinstance(b, before.FlexAttentionMetadataBuilder) for b in pieces.builders.values()
    )
    assert (counts["host_syncs"] > 0) is waits


def test_metadata_as_it_was_is_made_once_for_all_layers_that_share_it(accelerator, model):
    """The host waits once for each different mask if the runner has the metadata builder of before:
    the first layer with a mask makes its metadata, and the other layers share it."""
    (batch,) = batches(4, 1)
    syncs = []
    for windows in ((None,), (None, 20)):
        config = replace(CONFIG, windows=windows, num_layers=4)
        of_windows = Decoder(config, LIMITS, accelerator.device)
        runner = PiecewiseRunner(
            of_windows, LIMITS, accelerator.device, [8], before.FlexAttentionMetadataBuilder
        )
        runner.capture_model()
        runner.step(batch)
        with debubble.record(accelerator) as timeline:
            runner.step(batch)
        syncs.append(timeline.counts()["host_syncs"])
    assert syncs[1] == 2 * syncs[0] > 0


def test_what_lies_between_the_pieces_never_moves(pieces):
    captured = pieces.captured[8]
    unattended = captured.pieces.unattended.values()
    assert len(unattended) == CONFIG.num_layers
    between = [captured.pieces.attended, captured.logits, *(piece.qkv for piece in unattended)]
    addresses = [tensor.data_ptr() for tensor in between]
    found = [pieces.step(batch) for batch in batches(5, 4) if batch.num_tokens > 2]
    assert found
    assert {logits.data_ptr() for logits in found} == {captured.logits.data_ptr()}
    assert [tensor.data_ptr() for tensor in between] == addresses


def test_rows_that_pad_a_batch_change_nothing(pieces):
    """Padding rows change no token's logits, even if attention left NaN in them."""
    batch = next(batch for batch in batches(6, 20) if 2 < batch.num_tokens < 8)
    right = pieces.step(batch).cpu()
    pieces.captured[8].pieces.attended.fill_(torch.nan)
    assert torch.equal(pieces.step(batch).cpu(), right)
