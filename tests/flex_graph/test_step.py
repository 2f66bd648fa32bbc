"""One step in all variants: equal tokens, and what each variant makes the host do."""

from dataclasses import replace

import pytest
import torch

import debubble
from solutions.flex_graph.model.config import FlexConfig
from solutions.flex_graph.step import VARIANTS, FlexStep
from tests.common import claims

from .attention_only import LIMITS
from .serving import Serving

CONFIG = replace(FlexConfig.tiny(), windows=(None, 20))
GRAPHS = {"eager": 0, "piecewise": 3, "piecewise_built": 3, "full": 1, "mask_once": 1}
"""The number of captured graphs for a step with two layers, by variant."""
WAITS = ("eager", "piecewise")


@pytest.fixture(scope="module")
def step(accelerator):
    """Returns a FlexStep that has run in all variants, since the first batch of a process may
    compile."""
    step = FlexStep(CONFIG, LIMITS, accelerator.device, capture_sizes=[8])
    for variant in VARIANTS:
        step.use(variant)
        assert step.runner.capture_error is None
        for batch in batches(0, 2):
            step.run(batch)
    return step


def batches(seed, number, max_tokens=8):
    serving = Serving(LIMITS, seed)
    return [serving.next_step(max_tokens)[0] for _ in range(number)]


def test_every_variant_is_listed_with_what_it_replays():
    assert tuple(GRAPHS) == VARIANTS


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_a_step_makes_the_host_do(accelerator, step, variant):
    step.use(variant)
    (batch,) = batches(1, 1)
    counts = claims.counts_of(accelerator, lambda: step.run(batch))
    assert counts["graph_launches"] == GRAPHS[variant]
    assert (counts["host_syncs"] > 0) is (variant in WAITS)
    if accelerator.pin_memory:
        assert counts["h2d_pinned"] == 2
        assert counts["h2d_pageable"] == 0


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if variant not in WAITS])
def test_where_syncs_are_refused_steps_of_today_are_not(step, variant):
    step.use(variant)
    for batch in batches(2, 2):
        with debubble.no_host_syncs():
            step.run(batch)


@pytest.mark.parametrize("variant", WAITS)
def test_as_it_was_a_step_is_refused_where_syncs_are(step, variant):
    step.use(variant)
    (batch,) = batches(2, 1)
    with pytest.raises(debubble.HostSyncError, match=r"before\.py"), debubble.no_host_syncs():
        step.run(batch)


def test_all_variants_give_the_same_whatever_their_order(step):
    """Every variant gives the logits of "eager", and so does "mask_once" if it gets a batch twice
    in a row."""
    for batch in batches(3, 3):
        step.use("eager")
        right = step.run(batch).cpu()
        for variant in VARIANTS[1:]:
            step.use(variant)
            for _ in range(2):
                assert torch.allclose(step.run(batch).cpu(), right, atol=1e-4, rtol=1e-4), variant


def test_a_mask_made_once_is_not_made_again_for_the_same_batch(accelerator, step):
    """The variant "mask_once" builds the metadata only if the batch differs from the last one: the
    same batch again takes at least six kernels less."""
    step.use("mask_once")
    first, second = batches(4, 2)
    step.run(first)
    kernels = []
    for batch in (first, second, second, first):
        with debubble.record(accelerator) as timeline:
            step.run(batch)
        kernels.append(timeline.counts()["kernels"])
    same, other, *rest = kernels
    assert other >= same + 2 * 3
    assert rest == [same, other]


def test_a_mask_made_once_is_made_again_behind_an_eager_step(accelerator, step):
    """The variant "mask_once" builds the metadata again after an eager step, whose metadata lies in
    the same memory."""
    step.use("mask_once")
    (batch,) = batches(5, 1)
    right = step.run(batch).cpu()
    large = next(batch for batch in batches(6, 20, max_tokens=16) if batch.num_tokens > 8)
    step.run(large)
    step.use("eager")
    right = step.run(batch).cpu()
    step.use("mask_once")
    assert torch.allclose(step.run(batch).cpu(), right, atol=1e-4, rtol=1e-4)


def test_steps_queued_behind_a_busy_device_are_all_right(accelerator, step):
    """Steps are right if the host queues more of them than can be staged at once, while the device
    is busy."""
    step.use("full")
    several = batches(7, 4)
    right = [step.run(batch).cpu() for batch in several]
    found = claims.overlapped(accelerator, lambda batch: step.run(batch).clone(), several)
    assert all(torch.equal(a.cpu(), b) for a, b in zip(found, right, strict=True))


def test_graphs_are_captured_when_a_variant_is_used_for_the_first_time(accelerator, step):
    lazy = FlexStep(CONFIG, LIMITS, accelerator.device, "eager", capture_sizes=[1])
    assert list(lazy.runners) == ["eager"]
    lazy.use("full")
    runner = lazy.runner
    assert list(runner.captured) == [1]
    lazy.use("eager")
    lazy.use("full")
    assert lazy.runner is runner


def test_an_unknown_variant_is_refused(step):
    with pytest.raises(ValueError, match=r"'later': choose one of eager, piecewise, .*mask_once"):
        step.use("later")
