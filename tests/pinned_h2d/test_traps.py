"""Faults found upstream, in review or after the merge.

Each test also runs naive code and shows that it misbehaves, while ours does not.
"""

import pytest
import torch
import triton
import triton.language as tl

import debubble
from debubble.accelerator import launch
from solutions.pinned_h2d import (
    NOT_COMPUTED,
    ModelRunner,
    PrefixRangeBuffer,
    StagingRing,
    compute_mm_prefix_range_tensor,
)
from solutions.pinned_h2d.metadata import _set_mm_prefix_range_for_metadata
from solutions.pinned_h2d.model import attention
from tests.common import claims
from tests.gate import LONG_MS, SHORT_MS, closed_gate

from .oracle import AttentionCase, holds_both, padded
from .test_runner import layers_of as layers_with

PROMPT = range(0, 64)


def layers_of(first, num_requests, num_layers=48, padding=0):
    return layers_with(first, [PROMPT] * num_requests, padding, num_layers)


def rows(tensor):
    return tensor.cpu().tolist()


def test_trap_1_none_is_told_from_not_yet_computed(accelerator):
    def naive_set(layers, ranges, upload):
        tensor = None
        for metadata in layers.values():
            if tensor is None:  # not computed yet, or computed and None?
                tensor = upload(ranges, metadata.batch.num_seqs)
            metadata.mm_prefix_range_tensor = tensor

    def computations(set_ranges):
        calls = []

        def upload(ranges, num_seqs):
            calls.append(num_seqs)
            return compute_mm_prefix_range_tensor(ranges, num_seqs, accelerator.device)

        layers = layers_of(0, 4)
        assert all(m.mm_prefix_range_tensor is NOT_COMPUTED for m in layers.values())
        set_ranges(layers, {0: []}, upload)
        assert all(m.mm_prefix_range_tensor is None for m in layers.values())
        return len(calls)

    assert computations(naive_set) == 48
    assert computations(_set_mm_prefix_range_for_metadata) == 1


def test_trap_2_a_dict_that_changes_makes_nothing_stale(accelerator):
    cache = {}

    def naive_tensor(ranges):
        if id(ranges) not in cache:
            cache[id(ranges)] = compute_mm_prefix_range_tensor(ranges, 2, accelerator.device)
        return cache[id(ranges)]

    runner = ModelRunner(2, 1, accelerator.device)

    def our_tensor(ranges):
        layers = layers_of(0, 2)
        runner._set_mm_prefix_range_for_metadata(layers, ranges)
        return layers["layers.47"].mm_prefix_range_tensor

    ranges = {0: [(2, 5)]}
    assert rows(naive_tensor(ranges)) == rows(our_tensor(ranges)) == [[[2, 5]], [[0, 0]]]
    del ranges[0]  # the request is finished, and a different one runs
    ranges[1] = [(7, 9)]
    assert rows(naive_tensor(ranges)) == [[[2, 5]], [[0, 0]]]
    assert rows(our_tensor(ranges)) == [[[0, 0]], [[7, 9]]]


def test_trap_3_micro_batches_are_keyed_anew(accelerator):
    def naive_set(micro_batches, ranges):
        for layers in micro_batches:
            num_seqs = layers["layers.0"].batch.num_seqs
            tensor = compute_mm_prefix_range_tensor(ranges, num_seqs, accelerator.device)
            for metadata in layers.values():
                metadata.mm_prefix_range_tensor = tensor

    def tensors(set_ranges):
        micro_batches = [layers_of(0, 2, padding=1), layers_of(2, 2)]
        set_ranges(micro_batches, {0: [(2, 5)], 3: [(7, 9)]})
        return [rows(layers["layers.0"].mm_prefix_range_tensor) for layers in micro_batches]

    # Request 3 is row 1 of the second micro-batch; no micro-batch has a row 3.
    right = [[[[2, 5]], [[0, 0]], [[0, 0]]], [[[0, 0]], [[7, 9]]]]
    assert tensors(naive_set) != right
    runner = ModelRunner(5, 1, accelerator.device)
    assert tensors(runner._set_mm_prefix_range_for_metadata) == right


def test_trap_4_sparse_keys_keys_past_the_end_and_padded_rows(accelerator):
    def naive_tensor(ranges, num_seqs, device):
        uploaded = [
            torch.tensor(spans, dtype=torch.int32, device=device) for spans in ranges.values()
        ]
        return torch.nn.utils.rnn.pad_sequence(uploaded, batch_first=True)

    ranges, num_seqs = {3: [(7, 9)], 1: [(2, 5), (6, 8)], 9: [(1, 2)]}, 6
    right = [[[0, 0]] * 2 for _ in range(num_seqs)]
    right[1], right[3] = [[2, 5], [6, 8]], [[7, 9], [0, 0]]
    assert rows(naive_tensor(ranges, num_seqs, accelerator.device)) != right
    assert rows(compute_mm_prefix_range_tensor(ranges, num_seqs, accelerator.device)) == right

    buffer = PrefixRangeBuffer(8, 2, accelerator.device)
    buffer.update({row: [(1, 60)] * 2 for row in range(8)}, 8)
    assert rows(buffer.update(ranges, num_seqs)) == right
    assert not buffer.tensor[num_seqs:].any()


def test_trap_5_degenerate_spans_hold_nothing_and_end_nothing(accelerator):
    case = AttentionCase.random([(12, 12)], (2, 1), 32)

    def stop_at_zero(spans):
        """Returns the spans before the first (0, 0), as if it ended the list. (The naive way.)"""
        return spans[: spans.index((0, 0))] if (0, 0) in spans else spans

    def needs_a_start(query, key, start, end):
        """Returns True where query and key are both in the range, unless it starts at 0, as if that
        were padding. (The naive way.)"""
        return holds_both(query, key, start, end) & (start > 0)

    spans = [(0, 0), (5, 5), (0, 1), (4, 9)]
    ours = case.attention(padded([spans]))
    right = case.oracle([spans])
    assert (ours - right).abs().max() < 1e-4
    assert (case.oracle([stop_at_zero(spans)]) - right).abs().max() > 1e-2
    assert (case.oracle([spans], rule=needs_a_start) - right).abs().max() > 1e-2
    # (s, s) and (0, 0) hold one token, which sees itself anyway, so they change nothing.
    assert torch.equal(case.attention(padded([[(0, 0), (5, 5)]])), case.attention())


def test_trap_6_the_address_survives_graph_replay(accelerator):
    case = AttentionCase.random([(12, 12), (12, 12)], (2, 1), 32)
    on_device = [t.to(accelerator.device) for t in (case.query, case.key_cache, case.value_cache)]
    steps = [{0: [(2, 9)]}, {1: [(1, 6), (5, 10)]}, {}]

    def replayed_outputs(tensor_of_step):
        """Captures a graph with the first step's range tensor, and yields its output after a replay
        for each step."""
        held = [tensor_of_step(steps[0])]
        output = torch.zeros_like(on_device[0])

        def run():
            output.copy_(attention.prefix_attention(*on_device, case.batch, ranges=held[0]))

        graph, _ = claims.captured(accelerator, run)
        for step in steps:
            held.append(tensor_of_step(step))
            graph.replay()
            yield output.cpu()

    def naive_tensor(ranges):
        return compute_mm_prefix_range_tensor(ranges, 2, accelerator.device)

    buffer = PrefixRangeBuffer(4, 2, accelerator.device, for_graphs=True)
    right = [case.oracle([step.get(row, []) for row in range(2)]) for step in steps]
    naive = list(replayed_outputs(naive_tensor))
    ours = list(replayed_outputs(lambda ranges: buffer.update(ranges, 2)))
    assert [float((a - b).abs().max()) < 1e-4 for a, b in zip(ours, right, strict=True)] == [
        True
    ] * 3
    assert (naive[0] - right[0]).abs().max() < 1e-4
    assert (naive[1] - right[0]).abs().max() < 1e-4  # the first step's ranges again
    assert (naive[1] - right[1]).abs().max() > 1e-2


def test_trap_7_the_upload_is_pinned_does_not_wait_and_is_never_overwritten(accelerator):
    if not accelerator.pin_memory:
        pytest.skip(f"no host memory can be pinned on {accelerator.description}")
    ranges, device = {0: [(2, 5)], 1: [(1, 3)]}, accelerator.device

    def naive_upload(ranges):
        """Uploads the ranges from pageable memory, for which the host waits, once a step. (The
        naive way.)"""
        return torch.tensor([ranges[0], ranges[1]], dtype=torch.int32, device=device)

    runner = ModelRunner(2, 1, device)

    def our_upload(ranges):
        runner._set_mm_prefix_range_for_metadata(layers_of(0, 2), ranges)

    def counts(upload):
        with debubble.record(accelerator) as timeline:
            upload(ranges)
        names = ("h2d_pageable", "h2d_pinned", "host_syncs")
        return tuple(timeline.counts()[name] for name in names)

    assert counts(naive_upload) == (1, 0, 1)
    assert counts(our_upload) == (0, 1, 0)

    def arrived(upload, at_most_ms):
        """Returns the values that three uploads of 1, 2 and 3 bring if all are queued while the
        device is busy."""
        targets = [torch.zeros(4, dtype=torch.int32, device=device) for _ in range(3)]
        accelerator.synchronize()
        with closed_gate(accelerator, at_most_ms):
            for value, target in enumerate(targets, start=1):
                upload(torch.full((4,), value, dtype=torch.int32), target)
        return [target[0].item() for target in targets]

    slot = torch.zeros(4, dtype=torch.int32, pin_memory=True)

    def naive_reuse(values, target):
        slot.copy_(values)
        target.copy_(slot, non_blocking=True)

    assert arrived(naive_reuse, LONG_MS) != [1, 2, 3]
    # With a single slot each upload waits for the one before.
    assert arrived(StagingRing((4,), torch.int32, 1).upload, SHORT_MS) == [1, 2, 3]


@triton.jit
def naive_count_kernel(counted, ranges, MAX_RANGES: tl.constexpr):
    valid = 0
    for i in range(MAX_RANGES):
        valid += (tl.load(ranges + 2 * i) < tl.load(ranges + 2 * i + 1)).to(tl.int32)
    tl.store(counted, valid)


def test_trap_8_the_number_of_ranges_compiles_nothing_anew(accelerator, monkeypatch):
    case = AttentionCase.random([(12, 12)], (2, 1), 32)
    tensors = [padded([[(2, 5)]], capacity) for capacity in (1, 2, 3, 5, 8, 16)]
    counted = torch.zeros(1, dtype=torch.int32, device=accelerator.device)

    def naive_run(ranges):
        launch(naive_count_kernel, (1,), counted, ranges, MAX_RANGES=ranges.shape[1])

    def our_run(ranges):
        case.attention(ranges)

    naive = compilations(accelerator, naive_count_kernel, naive_run, tensors, monkeypatch)
    ours = compilations(
        accelerator, attention.prefix_attention_kernel, our_run, tensors, monkeypatch
    )
    assert (naive, ours) == (len(tensors), 1)


def compilations(accelerator, kernel, run, tensors, monkeypatch) -> int:
    """Returns how many kernels Triton compiles for calls of `run` with these range tensors; on sim,
    how many it would compile."""
    if accelerator.name == "cuda":
        compiled = kernel.device_caches[torch.cuda.current_device()][0]
        compiled.clear()
        for ranges in tensors:
            run(ranges)
        return len(compiled)
    told_apart, original = set(), type(accelerator).launch
    constants = [n for n, kind in kernel.fn.__annotations__.items() if "constexpr" in str(kind)]

    def noting(self, launched, grid, *args, **options):
        told_apart.add(tuple(options.get(name) for name in (*constants, "num_warps", "num_stages")))
        return original(self, launched, grid, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(type(accelerator), "launch", noting)
        for ranges in tensors:
            run(ranges)
    return len(told_apart)


def test_trap_9_spans_are_clamped_to_the_sliding_window(accelerator):
    """(causal and window) or image is no window for an image: a model may want the image clamped
    too (vLLM #50539). A window beside an image stays one (vLLM #28739), and positions in a later
    chunk of a prompt count from the prompt's start (vLLM #47332)."""
    window, spans = 6, [[(2, 30), (35, 38)]] * 2
    case = AttentionCase.random([(40, 40), (12, 40)], (4, 2), 32)

    def inside_the_window(query, key, start, end):
        return holds_both(query, key, start, end) & ((query - key).abs() < window)

    right = {
        clamped: case.oracle(spans, window, rule=inside_the_window if clamped else holds_both)
        for clamped in (False, True)
    }
    assert (right[False] - right[True]).abs().max() > 1e-2
    for clamped in right:
        found = case.attention(padded(spans), window=window, clamp_to_window=clamped)
        error = (found - right[clamped]).abs().max().item()
        assert error < 1e-4, f"another mask with clamp_to_window={clamped}: error {error:.1e}"
