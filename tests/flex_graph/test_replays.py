"""Replays of one capture with batches of all kinds: each is right, and no memory moves."""

from dataclasses import replace

import pytest
import torch

import debubble
from solutions.flex_graph.model.config import FlexConfig
from solutions.flex_graph.step import FlexStep
from solutions.flex_graph.steps.limits import ALONE, Limits

from .attention_only import BOTH_TYPES, FLOAT32, LIMITS, Served
from .serving import Serving
from .tables import LIMITS as WIDE_LIMITS

REPLAYS = 200
FEW_REPLAYS = 40
"""How many of them `make test` runs."""
LARGE_LIMITS = Limits(
    max_num_seqs=16, max_num_batched_tokens=256, max_model_len=500, num_gpu_blocks=400
)
"""Limits with 16 groups, and more tokens than FlexAttention splits the keys for."""
LOOK_INSIDE_EVERY = 20


def memory_of(served):
    """Returns (address, shape, strides) of all tensors that a graph uses and doesn't own."""
    tensors = [*served.model.tensors(), *tensors_in(served.runner.inputs)]
    for builder in served.runner.builders.values():
        tensors += tensors_in(builder.buffers)
    return [(tensor.data_ptr(), tensor.shape, tensor.stride()) for tensor in tensors]


def tensors_in(thing):
    return [value for value in vars(thing).values() if isinstance(value, torch.Tensor)]


def expect_right_replays(accelerator, served, replays):
    runner = served.runner
    runner.capture_model()
    assert runner.capture_error is None
    before, compilations, kinds = memory_of(served), accelerator.flex_compilations, set()
    for replay in range(replays):
        batch, expected = served.next_step()
        kinds.add((len(batch.query_lens), batch.num_tokens, batch.max_seq_len))
        if replay % LOOK_INSIDE_EVERY:
            with debubble.no_host_syncs():
                found = runner.step(batch)
        else:
            found = counted_step(accelerator, runner, batch)
        assert found.shape[0] == batch.num_tokens
        assert served.is_right(found, expected), f"replay {replay}: {batch}"
        assert found.data_ptr() == runner.captured[runner.capture_sizes[0]].logits.data_ptr()
    assert memory_of(served) == before
    assert accelerator.flex_compilations == compilations
    assert len(kinds) > replays / 3


def counted_step(accelerator, runner, batch):
    """Runs a step, checks that it is one graph launch with two pinned uploads and that the host
    waits for nothing, and returns its result."""
    with debubble.record(accelerator) as timeline:
        found = runner.step(batch)
    counts = timeline.counts()
    assert timeline.hazards == []
    assert counts["graph_launches"] == 1
    assert counts["host_syncs"] == counts["d2h"] == 0
    if accelerator.pin_memory:
        assert counts["h2d_pageable"] == 0
        assert counts["h2d_pinned"] == 2
    launched = {event.launched_by for event in timeline.events if event.on_device}
    assert len(launched) <= 1 + 2
    return found


@pytest.mark.parametrize("most", [FEW_REPLAYS, pytest.param(REPLAYS, marks=pytest.mark.deep)])
def test_200_replays_of_one_capture_are_right_in_both_types(accelerator, most):
    """200 replays of one captured graph are right for a float32 and a bfloat16 layer, which share
    one metadata."""
    limits = LIMITS if accelerator.modelled else LARGE_LIMITS
    replays = most if accelerator.modelled else REPLAYS
    expect_right_replays(accelerator, Served(accelerator, limits=limits, kinds=BOTH_TYPES), replays)


def test_replays_of_several_groups_of_tokens(accelerator):
    """25 replays of a graph with several groups of tokens are right. The last group is never full,
    as in most steps."""
    served = Served(accelerator, limits=WIDE_LIMITS, kinds=FLOAT32, seed=1)
    expect_right_replays(accelerator, served, replays=25)


@pytest.mark.deep
def test_replays_where_each_token_is_alone(accelerator):
    """10 replays are right if every token is a group of its own, for prefills and decodes, some
    with fewer tokens than the graph."""
    limits = replace(WIDE_LIMITS, q_block=ALONE)
    served = Served(accelerator, limits=limits, kinds=BOTH_TYPES, seed=2)
    expect_right_replays(accelerator, served, replays=10)


MODEL = replace(FlexConfig.tiny(), windows=(None, 20))
VARIANTS = ("eager", "piecewise", "piecewise_built", "full")


@pytest.fixture(scope="module")
def model_steps(accelerator):
    """Returns a FlexStep whose layers have different windows, with its graphs captured in all
    variants."""
    step = FlexStep(MODEL, LIMITS, accelerator.device, "full", capture_sizes=[4, 16])
    for variant in VARIANTS:
        step.use(variant)
        assert step.runner.capture_error is None
    return step


def test_a_model_s_tokens_are_the_same_in_all_variants(model_steps):
    """Logits and most likely tokens are the same in all variants. Each variant writes the same keys
    to the same slots, so a step can run in every one."""
    serving = Serving(LIMITS, seed=2)
    for _ in range(8):
        batch, _ = serving.next_step(LIMITS.max_num_batched_tokens)
        logits = {}
        for variant in VARIANTS:
            model_steps.use(variant)
            logits[variant] = model_steps.run(batch).cpu()
        right = logits["eager"]
        assert right.isfinite().all()
        for found in logits.values():
            assert torch.allclose(found, right, atol=1e-4, rtol=1e-4)
            assert torch.equal(found.argmax(-1), right.argmax(-1))
