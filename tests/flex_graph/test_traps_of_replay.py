"""Faults of replays found upstream, in review or after the merge (vLLM #36298).

Each test also runs naive code and shows that it misbehaves, while ours does not.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

import debubble
from debubble.accelerator import CaptureError
from solutions.flex_graph import before
from solutions.flex_graph.builder import FlexAttentionMetadataBuilder
from solutions.flex_graph.mask import CAUSAL, Mask, block_mask_over, paged_mask_mod, sliding_window
from solutions.flex_graph.runner import GraphRunner
from solutions.flex_graph.steps.mask_once import MaskOnceRunner
from solutions.flex_graph.steps.step_runner import profile_batch

from .attention_only import FLOAT32, LIMITS, AttentionOnly, Served

WINDOW = sliding_window(10)
SHORT = LIMITS.block_size
"""A length of one page; other requests have up to three."""


def captured(accelerator, runner_class=GraphRunner, **options):
    served = Served(accelerator, runner_class, **options)
    served.runner.capture_model()
    assert served.runner.capture_error is None
    return served


# Cause 1: warm-up and capture with different lengths.


class KeptPages(FlexAttentionMetadataBuilder):
    """A naive builder: its mask reads a table that is only as wide as the current step's lengths
    need."""

    def build(self, common):
        metadata = super().build(common)
        doc_ids, mapping = self.buffers.doc_ids, self.buffers.physical_to_logical
        paged, page = metadata.block_mask.mask_mod, self.limits.block_size
        shape = (len(common.seq_lens), self.limits.pages_of(common.max_seq_len))
        kept = torch.ones(shape, dtype=torch.bool, device=common.seq_lens.device)

        def mask_mod(b, h, q, kv):
            request = doc_ids[q]
            logical_page = mapping[request, kv // page].clamp(0, shape[1] - 1)
            return paged(b, h, q, kv) & kept[request, logical_page]

        mask = block_mask_over(self.buffers, self.limits, mask_mod, metadata.num_tokens)
        return replace(metadata, block_mask=mask)

    def build_for_cudagraph_capture(self, common):
        return self.build(common)


class WarmUpIsShort(GraphRunner):
    """A naive runner: its warm-up gets the batch's own lengths, and its capture the greatest
    length."""

    def _capture(self, common):
        return super()._capture(replace(common, max_seq_len=LIMITS.max_model_len))


def test_cause_1_a_warm_up_with_other_lengths_leaves_compilation_to_the_capture(accelerator):
    def capture(runner_class, builder_class):
        served = Served(accelerator, runner_class, builder_class=builder_class)
        served.runner._warmup_and_capture(16, SHORT)
        return served

    with pytest.raises(CaptureError, match="would have to be compiled for 16 query tokens"):
        capture(WarmUpIsShort, KeptPages)
    # With equal lengths in both even such a mask can be captured. Ours only needs its builder
    # to know that there is a capture.
    capture(GraphRunner, KeptPages)
    assert all(capture(WarmUpIsShort, FlexAttentionMetadataBuilder).steps(4))


# Cause 2: tensors of the step.


class NewTensors(before.FlexAttentionMetadataBuilder):
    """A naive builder: it makes the metadata before the graph runs, but in new tensors in every
    step."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kept = []

    def build(self, common):
        metadata = super().build(common)
        self.kept.append((metadata, metadata.block_mask))
        return metadata


def test_cause_2_a_graph_goes_on_reading_the_tensors_of_its_capture(accelerator):
    """A graph reads the tensors of its capture, so replays are wrong if each step's metadata is in
    new tensors. They are right if it is in persistent buffers."""
    assert not any(captured(accelerator, MaskOnceRunner, builder_class=NewTensors).steps(4))
    assert all(captured(accelerator, MaskOnceRunner).steps(4))


@pytest.mark.sim
def test_cause_2_or_memory_that_is_somebody_else_s_by_now(accelerator):
    """A graph whose captured metadata was freed reads memory that may hold anything. Sim reports
    the hazard "graph_input_freed"; a GPU reports nothing."""
    served = captured(accelerator, MaskOnceRunner, builder_class=NewTensors)
    (builder,) = served.runner.builders.values()
    batch, expected = served.next_step()
    with debubble.record(accelerator) as timeline:
        builder.kept.clear()
        with pytest.raises(RuntimeError, match=r"illegal memory access|kv_indices has"):
            served.is_right(served.runner.step(batch), expected)
    assert {hazard.kind for hazard in timeline.hazards} == {"graph_input_freed"}


# Cause 3, and trap 7: work of a layer in its forward.


class MaskOfTheLayer(AttentionOnly):
    """A naive model: its layers ignore the runner's metadata, and make a mask with their own window
    in each forward."""

    def __init__(self, limits, device, kinds):
        super().__init__(limits, device, kinds)
        self.builder = before.FlexAttentionMetadataBuilder(limits, device, WINDOW)
        self.mask_of = dict.fromkeys(kinds, CAUSAL)
        self.runner = None

    def forward(self, inputs, attn_metadata):
        common = self.runner.inputs.common(len(inputs.positions), LIMITS.max_model_len)
        metadata = self.builder.build(common)
        return super().forward(inputs, dict.fromkeys(attn_metadata, metadata))


def test_trap_7_a_mask_that_a_layer_makes_in_its_forward_cannot_be_captured(accelerator):
    kinds = {"layer": (torch.float32, WINDOW)}
    naive = Served(accelerator, model_class=MaskOfTheLayer, kinds=kinds)
    naive.model.runner = naive.runner
    with pytest.warns(RuntimeWarning, match="no graph for steps of 16 tokens"):
        naive.runner.capture_model()
    assert naive.runner.captured == {}
    assert all(naive.steps(3))
    assert all(captured(accelerator, kinds=kinds).steps(6))


# Traps, in the order of the facts.


class StridesOfTheStep(FlexAttentionMetadataBuilder):
    """A naive builder: it copies the block table to persistent memory, but with the strides of the
    step's table."""

    def __init__(self, *args):
        super().__init__(*args)
        copy_batch, persistent = self.buffers.copy_batch, self.buffers.block_table

        def copy_with_its_strides(common):
            copy_batch(common)
            table = common.block_table
            persistent.as_strided(table.shape, table.stride()).copy_(table)

        self.buffers.copy_batch = copy_with_its_strides


class TableOfTheStep(MaskOnceRunner):
    """A runner that passes on a narrower block table: as many columns as the step's longest request
    has pages."""

    def _metadata(self, common, for_capture=False):
        columns = self.limits.pages_of(common.max_seq_len)
        table = common.block_table[:, :columns].contiguous()
        return super()._metadata(replace(common, block_table=table), for_capture)


def test_trap_2_rows_lie_where_the_graph_captured_them_whatever_the_step_s_strides(accelerator):
    """Replays are right if steps have block tables of different widths. They are wrong if the copy
    takes over the strides of the step's table."""
    limits = replace(LIMITS, max_model_len=6 * LIMITS.block_size, num_gpu_blocks=25)

    def found(**options):
        return captured(accelerator, TableOfTheStep, limits=limits, **options).steps(10)

    assert not all(found(builder_class=StridesOfTheStep))
    assert all(found())


class LengthOfTheCapture(FlexAttentionMetadataBuilder):
    """A naive builder: the graph it is captured in keeps the greatest length of the captured batch,
    a Python number, forever."""

    def build_for_cudagraph_capture(self, common):
        return self.build(common)


def test_the_longest_request_of_a_capture_is_no_limit_for_replays(accelerator):
    def found(builder_class):
        served = Served(accelerator, builder_class=builder_class)
        served.runner._warmup_and_capture(16, SHORT)
        lengths = []
        for _ in range(12):
            batch, expected = served.next_step()
            right = served.is_right(served.runner.step(batch), expected)
            lengths.append((batch.max_seq_len <= SHORT, right))
        assert len({short for short, _ in lengths}) == 2
        return lengths

    assert all(right is short for short, right in found(LengthOfTheCapture))
    assert all(right for _, right in found(FlexAttentionMetadataBuilder))


def test_trap_8_the_number_of_requests_compiles_nothing_anew(accelerator):
    """Steps of 3, 4, 2 and 1 requests compile flex_attention once. The builder of before compiles
    again for one request, since a size of 1 is special to the compiler."""

    def compilations(builder_class, own):
        kinds = {"layer": (torch.float32, Mask(logical_mask_mod=own))}
        served = Served(accelerator, builder_class=builder_class, kinds=kinds, capture_sizes=[])
        counts = []
        for num_reqs in (3, 4, 2, 1):
            query_lens = np.array([12 // num_reqs] * num_reqs, np.int32)
            batch = profile_batch(12, 40, LIMITS)
            rows = {name: getattr(batch, name)[:num_reqs] for name in ("seq_lens", "block_table")}
            so_far = accelerator.flex_compilations
            served.runner.step(replace(batch, query_lens=query_lens, **rows))
            counts.append(accelerator.flex_compilations - so_far)
        return counts

    # The masks have new code, so that they are not compiled yet.
    naive = compilations(before.FlexAttentionMetadataBuilder, lambda b, h, q, kv: kv >= 0)
    ours = compilations(FlexAttentionMetadataBuilder, lambda b, h, q, kv: q >= 0)
    assert naive == [1, 0, 0, 1]
    assert ours == [1, 0, 0, 0]


@pytest.mark.parametrize("too_long", [1, 100])
def test_trap_9_no_dummy_request_is_longer_than_a_request_can_be(accelerator, too_long):
    served = Served(accelerator)
    longest = LIMITS.max_model_len + too_long
    angles = next(iter(served.model.attentions.values())).cos_sin
    naive = replace(
        profile_batch(4, 40, LIMITS),
        seq_lens=np.full(4, longest, np.int32),
    )
    assert naive.positions.max() >= len(angles)  # An illegal access, or other angles.
    with pytest.raises(ValueError, match=f"profile_seq_lens {longest}: .* max_model_len.* 48"):
        served.runner._warmup_and_capture(4, longest)
    for num_tokens in (1, 4, 16):
        batch = profile_batch(num_tokens, LIMITS.max_model_len, LIMITS)
        assert batch.positions.max() < len(angles)


class AsksForTheLongest(FlexAttentionMetadataBuilder):
    """A naive builder: it reads the step's exact greatest length from the device, so the host
    waits."""

    def build_for_cudagraph_capture(self, common):
        return self.build(replace(common, max_seq_len=int(common.seq_lens.max().item())))


def test_trap_12_a_capture_asks_the_device_for_no_length(accelerator):
    naive = Served(accelerator, builder_class=AsksForTheLongest)
    with pytest.warns(RuntimeWarning, match="no graph for steps of 16 tokens"):
        naive.runner.capture_model()
    assert naive.runner.captured == {}
    assert captured(accelerator).runner.captured.keys() == {16}


class OneBuilder(GraphRunner):
    """A naive runner: layers with different masks share one builder, which builds once for each
    mask, and overwrites the tables of the mask before."""

    def _metadata(self, common, for_capture=False):
        builder, metadata = next(iter(self.builders.values())), {}
        for name, mask in self.model.mask_of.items():
            builder._mask = mask
            builder._mask_mod = paged_mask_mod(mask, builder.buffers, self.limits)
            metadata[name] = builder.build_for_cudagraph_capture(common)
        return metadata


def test_trap_13_what_one_layer_sees_is_not_what_another_one_gets(accelerator):
    kinds = FLOAT32 | {"window": (torch.float32, WINDOW)}
    naive = captured(accelerator, OneBuilder, kinds=kinds)
    wrong = set()
    for _ in range(12):
        batch, expected = naive.next_step()
        found = naive.runner.step(batch).cpu().chunk(2, dim=1)
        for name, of_layer in zip(expected, found, strict=True):
            if (of_layer - expected[name]).abs().max() > 1e-2:
                wrong.add(name)
    # All layers get the last layer's pages.
    assert wrong == {"float32"}
    assert all(captured(accelerator, kinds=kinds).steps(12))
