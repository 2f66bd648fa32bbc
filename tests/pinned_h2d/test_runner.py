"""The runner uploads once a step, for all layers and micro-batches."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import debubble
from debubble.accelerator import current
from solutions.pinned_h2d import ModelRunner, TritonAttentionMetadata, before

from . import strategies

EVERYTHING = range(0, 64)


def layers_of(first, scheduled, padding=0, num_layers=3):
    batch = SimpleNamespace(
        requests=range(first, first + len(scheduled)),
        scheduled=tuple(scheduled),
        num_seqs=len(scheduled) + padding,
    )
    return {f"layers.{i}": TritonAttentionMetadata(batch) for i in range(num_layers)}


def tensor_of(layers):
    """Returns the range tensor of these layers. Raises AssertionError unless they share one."""
    tensors = [metadata.mm_prefix_range_tensor for metadata in layers.values()]
    assert all(tensor is tensors[0] for tensor in tensors)
    return tensors[0]


@pytest.mark.parametrize("num_micro_batches", [1, 2, 4])
def test_micro_batches_share_one_upload(accelerator, num_micro_batches):
    runner = ModelRunner(8, 4, accelerator.device)
    size = 8 // num_micro_batches
    micro_batches = [layers_of(first, [EVERYTHING] * size) for first in range(0, 8, size)]
    with debubble.record(accelerator) as timeline:
        runner._set_mm_prefix_range_for_metadata(
            micro_batches, {request: [(request, 20)] for request in range(8)}
        )
    assert timeline.counts()["h2d_pinned"] == accelerator.pin_memory
    assert timeline.counts()["host_syncs"] == 0
    rows = [row for layers in micro_batches for row in tensor_of(layers)[:, 0].tolist()]
    assert rows == [[request, 20] for request in range(8)]


@given(ranges=strategies.ranges, sizes=st.lists(st.integers(0, 4), min_size=1, max_size=3))
@settings(max_examples=100)
def test_a_micro_batch_sees_what_it_would_alone(ranges, sizes):
    """A micro-batch gets the ranges that it would get alone, computed by the code before the change
    with its own requests, numbered from zero."""
    firsts = [sum(sizes[:i]) for i in range(len(sizes))]
    batches = [
        layers_of(first, [EVERYTHING] * size, padding=i)
        for i, (first, size) in enumerate(zip(firsts, sizes, strict=True))
    ]
    ModelRunner(16, 4, current().device)._set_mm_prefix_range_for_metadata(batches, ranges)
    for first, size, layers in zip(firsts, sizes, batches, strict=True):
        num_seqs = layers["layers.0"].batch.num_seqs
        own = {key - first: spans for key, spans in (ranges or {}).items()}
        own = {key: spans for key, spans in own.items() if 0 <= key < size}
        alone = before.compute_mm_prefix_range_tensor(own, num_seqs, current().device)
        together = tensor_of(layers)
        if together is None:
            assert not any(start < end for spans in own.values() for start, end in spans)
        elif alone is None:
            assert not together.any()
        else:
            assert together.shape == (num_seqs, 4, 2)
            assert together[:, : alone.shape[1]].tolist() == alone.tolist()
            assert not together[:, alone.shape[1] :].any()


def test_a_decode_step_uploads_nothing(accelerator):
    runner = ModelRunner(8, 4, accelerator.device)
    layers = layers_of(0, [range(30, 31)] * 8)
    with debubble.record(accelerator) as timeline:
        runner._set_mm_prefix_range_for_metadata(layers, {i: [(2, 9)] for i in range(8)})
    assert timeline.events == []
    assert tensor_of(layers) is None


def test_one_chunk_of_a_prompt_that_a_span_reaches_is_enough(accelerator):
    runner = ModelRunner(8, 4, accelerator.device)
    layers = layers_of(0, [range(30, 31), range(8, 12)])
    runner._set_mm_prefix_range_for_metadata(layers, {0: [(2, 9)], 1: [(2, 9)]})
    assert tensor_of(layers)[:, 0].tolist() == [[2, 9], [2, 9]]


def test_for_graphs_every_step_has_its_tensor_at_one_address(accelerator):
    runner = ModelRunner(8, 4, accelerator.device, for_graphs=True)
    addresses = set()
    for ranges in ({0: [(2, 9)]}, None, {7: [(1, 3)]}):
        micro_batches = [layers_of(0, [EVERYTHING] * 4), layers_of(4, [EVERYTHING] * 4)]
        runner._set_mm_prefix_range_for_metadata(micro_batches, ranges)
        tensors = [tensor_of(layers) for layers in micro_batches]
        addresses.add(tuple(tensor.data_ptr() for tensor in tensors))
        expected = [[[0, 0]] * 4 for _ in range(8)]
        for request, spans in (ranges or {}).items():
            expected[request][: len(spans)] = [list(span) for span in spans]
        assert [row for tensor in tensors for row in tensor.tolist()] == expected
    assert len(addresses) == 1
