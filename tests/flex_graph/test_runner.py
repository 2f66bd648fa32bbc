"""The runner: the graph of a step, its cost on the host, and the memory that a capture leaves
unchanged."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import debubble
from solutions.flex_graph.builder import FlexAttentionMetadataBuilder
from solutions.flex_graph.mask import CAUSAL, Mask, sliding_window
from solutions.flex_graph.runner import GraphRunner
from solutions.flex_graph.steps.limits import Limits, default_capture_sizes
from solutions.flex_graph.steps.step_runner import profile_batch

from .attention_only import LIMITS, AttentionOnly, Served

WINDOW = sliding_window(10)


def limits_of(num_tokens):
    return replace(LIMITS, max_num_batched_tokens=num_tokens)


@pytest.mark.parametrize(
    ("num_tokens", "sizes"),
    [
        (1, [1]),
        (2, [1, 2]),
        (7, [1, 2, 4, 7]),
        (8, [1, 2, 4, 8]),
        (30, [1, 2, 4, 8, 16, 24, 30]),
        (8192, [1, 2, 4, *range(8, 257, 8)]),
    ],
)
def test_default_sizes_end_with_the_largest_step_or_where_graphs_gain_little(num_tokens, sizes):
    assert default_capture_sizes(limits_of(num_tokens)) == tuple(sizes)


@pytest.mark.parametrize("size", [0, -1, 17])
def test_a_size_that_no_step_has_is_refused(accelerator, size):
    model = AttentionOnly(LIMITS, accelerator.device)
    with pytest.raises(ValueError, match=f"a graph for {size} tokens.*max_num_batched.*is 16"):
        GraphRunner(model, LIMITS, accelerator.device, [4, size])


@pytest.fixture(scope="module")
def served(accelerator):
    """Returns a runner with captured graphs for 2 and 5 tokens; steps of more tokens run
    eagerly."""
    served = Served(accelerator, capture_sizes=[5, 2, 5])
    served.runner.capture_model()
    return served


def step_of(served, num_tokens):
    """Returns the next batch of `num_tokens` tokens, and its expected results."""
    batch, scheduled = served.serving.next_step(num_tokens)
    while batch.num_tokens != num_tokens:
        served.expected(scheduled)
        served.runner.step(batch)
        batch, scheduled = served.serving.next_step(num_tokens)
    return batch, served.expected(scheduled)


@pytest.mark.parametrize(
    ("num_tokens", "size"), [(1, 2), (2, 2), (3, 5), (5, 5), (6, None), (16, None)]
)
def test_a_step_takes_the_smallest_graph_that_holds_it(accelerator, served, num_tokens, size):
    batch, expected = step_of(served, num_tokens)
    with debubble.record(accelerator) as timeline:
        found = served.runner.step(batch)
    counts = timeline.counts()
    assert found.shape == (num_tokens, served.model.config.query_size)
    assert served.is_right(found, expected)
    assert counts["graph_launches"] == (size is not None)
    assert counts["host_syncs"] == counts["d2h"] == 0
    addresses = {n: captured.logits.data_ptr() for n, captured in served.runner.captured.items()}
    assert set(addresses) == {2, 5}
    assert addresses.get(size) == found.data_ptr() or size is None
    if accelerator.pin_memory:
        assert (counts["h2d_pinned"], counts["h2d_pageable"]) == (2, 0)


class Noting:
    """A metadata builder with only the two methods that a runner may call; it notes the calls in
    `asked`."""

    def __init__(self, limits, device, mask):
        self.builder = FlexAttentionMetadataBuilder(limits, device, mask)
        self.asked = []

    def build(self, common):
        self.asked.append(("build", common))
        return self.builder.build(common)

    def build_for_cudagraph_capture(self, common):
        self.asked.append(("capture", common))
        return self.builder.build_for_cudagraph_capture(common)


def test_each_size_is_warmed_up_as_it_is_captured_the_largest_first(accelerator):
    served = Served(accelerator, capture_sizes=[1, 16, 7], builder_class=Noting)
    served.runner.capture_model()
    (builder,) = served.runner.builders.values()
    expected = [("capture", size, 48, 4) for size in (16, 16, 7, 7, 1, 1)]
    assert [
        (kind, common.num_actual_tokens, common.max_seq_len, len(common.seq_lens))
        for kind, common in builder.asked
    ] == expected
    assert list(served.runner.captured) == [16, 7, 1]
    assert all(served.steps(4))
    assert len(builder.asked) == len(expected)


@pytest.mark.parametrize("num_tokens", [1, 3, 4, 11, 200])
def test_a_profile_batch_is_as_wide_and_as_long_as_can_be(num_tokens):
    limits = replace(LIMITS, max_num_batched_tokens=512)
    batch = profile_batch(num_tokens, 40, limits)
    batch.check(limits)
    assert batch.num_tokens == min(num_tokens, 4 * 40)
    assert len(batch.query_lens) == min(num_tokens, 4)
    assert batch.query_lens.max() - batch.query_lens.min() <= 1
    assert batch.seq_lens.tolist() == [40] * len(batch.seq_lens)


@pytest.mark.parametrize("seq_len", [1, 48])
def test_the_shortest_and_the_longest_requests_are_profiled(seq_len):
    assert profile_batch(4, seq_len, LIMITS).seq_lens.tolist() == [seq_len] * 4


def test_a_profile_batch_reads_no_block_outside_of_a_small_cache():
    batch = profile_batch(4, 48, replace(LIMITS, num_gpu_blocks=2))
    assert batch.block_table.tolist() == [[1, 1, 1]] * 4


@pytest.mark.parametrize("seq_len", [0, 49])
def test_profiled_lengths_are_those_that_requests_can_have(accelerator, served, seq_len):
    with pytest.raises(ValueError, match=f"profile_seq_lens {seq_len}: .* 1 to max_model_len.* 48"):
        served.runner._warmup_and_capture(4, seq_len)
    assert 4 not in served.runner.captured


def test_a_cache_smaller_than_one_request_is_profiled_too(accelerator):
    limits = Limits(
        max_num_seqs=2, max_num_batched_tokens=4, max_model_len=100, num_gpu_blocks=4, block_size=16
    )
    served = Served(accelerator, limits=limits)
    served.runner.capture_model()
    assert served.runner.capture_error is None
    assert all(served.steps(5))


def test_a_capture_in_the_middle_of_serving_changes_nobody_s_cache(accelerator):
    served = Served(accelerator)
    assert all(served.steps(6))
    assert served.runner.captured == {}
    cache = served.model.attentions["float32"].cache
    before = cache.key.cpu(), cache.value.cpu()
    served.runner.capture_model()
    assert torch.equal(cache.key.cpu(), before[0])
    assert torch.equal(cache.value.cpu(), before[1])
    assert list(served.runner.captured) == [16]
    assert all(served.steps(8))


class SlotsAlone(AttentionOnly):
    """A model that returns the slots of the step's tokens in place of logits."""

    def forward(self, inputs, attn_metadata):
        return inputs.slot_mapping.clone()


def test_a_captured_step_has_no_slots_not_even_of_the_null_block(accelerator):
    served = Served(accelerator, model_class=SlotsAlone, kinds={}, capture_sizes=[2, 5])
    served.runner.capture_model()
    graph, slots = served.runner.captured[5]
    graph.replay()
    assert slots.tolist() == [-1] * 5


def test_a_second_capture_captures_what_is_missing(accelerator):
    served = Served(accelerator, capture_sizes=[4, 8], builder_class=Noting)
    served.runner.capture_model()
    (builder,) = served.runner.builders.values()
    first, asked = dict(served.runner.captured), len(builder.asked)
    served.runner.capture_model()
    assert len(builder.asked) == asked
    assert served.runner.captured == first
    served.runner.captured.pop(4)
    served.runner.capture_model()
    assert len(builder.asked) == asked + 2
    assert served.runner.captured[8] is first[8]
    assert all(served.steps(4))


def test_layers_of_one_mask_share_a_builder_and_its_metadata(accelerator):
    kinds = {
        "a": (torch.float32, CAUSAL),
        "b": (torch.float32, WINDOW),
        "c": (torch.float32, Mask()),
        "d": (torch.float32, sliding_window(10)),
    }
    served = Served(accelerator, kinds=kinds, model_class=NotingModel)
    assert list(served.runner.builders) == [CAUSAL, WINDOW]
    served.runner.capture_model()
    for metadata in served.model.given:
        assert metadata["a"] is metadata["c"]
        assert metadata["b"] is metadata["d"]
        assert metadata["a"] is not metadata["b"]
    assert len(served.model.given) == 2
    assert all(served.steps(6))


class NotingModel(AttentionOnly):
    """A model that notes in `given` the metadata that its layers get in each forward."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.given = []

    def forward(self, inputs, attn_metadata):
        self.given.append(dict(attn_metadata))
        return super().forward(inputs, attn_metadata)


def test_a_step_without_tokens_is_refused(served):
    batch = profile_batch(4, 10, LIMITS)
    nothing = replace(
        batch,
        token_ids=batch.token_ids[:0],
        query_lens=np.zeros_like(batch.query_lens),
        seq_lens=np.zeros_like(batch.seq_lens),
    )
    with pytest.raises(ValueError, match="a step of 0 tokens: there is nothing to compute"):
        served.runner.step(nothing)
