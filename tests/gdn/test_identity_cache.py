"""The tables before the change: right, but with waits; and the value of a cache by identity."""

import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.gdn import before, each_layer
from solutions.gdn.host_tables import upload_chunk_tables
from solutions.gdn.rule.chunk_gated_delta_rule import chunk_gated_delta_rule
from solutions.gdn.rule.chunks import ChunkTables
from tests.common import claims

from .chunks import expect_tables, starts_of

LAYERS = 24
CACHED = (
    each_layer.identity_cache(before.prepare_chunk_indices),
    each_layer.identity_cache(before.prepare_chunk_offsets),
)


def on_device(accelerator, lengths):
    return torch.from_numpy(starts_of(lengths)).to(accelerator.device)


def waits(accelerator, call):
    """Returns the counts (host syncs, downloads, pageable uploads) of the second call."""
    counts = claims.counts_of(accelerator, call)
    return counts["host_syncs"], counts["d2h"], counts["h2d_pageable"]


class Calls:
    """A function `make` behind a cache by identity, as `cached`; `number` counts the calls that the
    cache could not answer."""

    def __init__(self, make):
        self.make, self.number = make, 0
        self.cached = each_layer.identity_cache(self.called)

    def called(self, *arguments):
        self.number += 1
        return self.make(*arguments)


@given(
    lengths=st.lists(st.sampled_from([0, 1, 15, 16, 17, 63, 64, 65, 129]), max_size=6),
    chunk_size=st.sampled_from([16, 64]),
)
@settings(max_examples=30)
def test_the_tables_were_right(accelerator, lengths, chunk_size):
    starts = on_device(accelerator, lengths)
    for indices, offsets in (
        (before.prepare_chunk_indices, before.prepare_chunk_offsets),
        CACHED,
    ):
        tables = ChunkTables(indices(starts, chunk_size), offsets(starts, chunk_size))
        assert {table.device.type for table in tables} == {accelerator.device.type}
        expect_tables(tables, lengths, chunk_size)


def test_each_call_read_the_starts_back_and_uploaded(accelerator):
    starts = on_device(accelerator, [100, 0, 300])
    assert waits(accelerator, lambda: before.prepare_chunk_indices(starts)) == (2, 1, 1)
    assert waits(accelerator, lambda: before.prepare_chunk_offsets(starts)) == (1, 0, 1)


def test_a_cache_left_the_waits_to_the_first_of_24_layers(accelerator):
    def step(indices, offsets):
        """Calls `indices` and `offsets` for each layer of a step; all layers share the step's new
        tensor of starts."""
        starts = on_device_already.clone()
        for _ in range(LAYERS):
            indices(starts, 64)
            offsets(starts, 64)

    on_device_already = on_device(accelerator, [100, 0, 300])
    uncached = before.prepare_chunk_indices, before.prepare_chunk_offsets
    cached = CACHED
    assert waits(accelerator, lambda: step(*uncached)) == (3 * LAYERS, LAYERS, 2 * LAYERS)
    assert waits(accelerator, lambda: step(*cached)) == (3, 1, 2)


def test_trap_2_a_buffer_that_is_overwritten_keeps_the_old_tables(accelerator):
    buffer = on_device(accelerator, [128, 64])
    cached = Calls(before.prepare_chunk_indices).cached
    assert cached(buffer, 64).tolist() == [[0, 0], [0, 1], [1, 0]]
    buffer.copy_(on_device(accelerator, [64, 128]))
    right = [[0, 0], [1, 0], [1, 1]]
    assert cached(buffer, 64).tolist() != right
    ours = upload_chunk_tables(starts_of([64, 128]), accelerator.device)
    assert ours.chunk_indices.tolist() == right


def test_trap_2_fresh_slices_are_never_found_and_keep_their_buffer_alive(accelerator):
    naive = Calls(before.prepare_chunk_indices)
    buffer = on_device(accelerator, [128, 64, 0, 0])
    for _ in range(LAYERS):
        naive.cached(buffer[:3], 64)
    assert naive.number == LAYERS

    def still_there_after(prepare, buffer):
        """Returns True if the cache keeps the tensor of starts, a slice of `buffer`, alive after
        its step."""
        part = buffer[:3]
        tables = prepare(part)
        remembered = weakref.ref(part)
        del part, buffer
        gc.collect()
        assert tables is not None
        return remembered() is not None

    assert still_there_after(lambda starts: naive.cached(starts, 64), buffer)
    upload = lambda starts: upload_chunk_tables(starts, accelerator.device)
    assert not still_there_after(upload, starts_of([128, 64, 0, 0]))


def test_a_thread_that_asks_meanwhile_changes_no_answer_of_the_cache(monkeypatch):
    cached = each_layer.identity_cache(lambda starts: [starts])
    mine, of_another_thread = object(), object()
    cached(mine)
    compare = each_layer._same_objects

    def compare_while_another_thread_asks(some, others):
        monkeypatch.undo()
        cached(of_another_thread)
        return compare(some, others)

    monkeypatch.setattr(each_layer, "_same_objects", compare_while_another_thread_asks)
    assert cached(mine) == [mine]


def arguments(accelerator, lengths, size=16):
    """Returns the op's arguments for sequences of these lengths, with one head."""
    random = np.random.default_rng(0)
    num_tokens = sum(lengths)
    numbers = lambda *shape: torch.from_numpy(random.standard_normal(shape, dtype=np.float32))
    on_host = {
        "q": numbers(1, num_tokens, 1, size),
        "k": numbers(1, num_tokens, 1, size),
        "v": numbers(1, num_tokens, 1, size),
        "g": -numbers(1, num_tokens, 1).abs(),
        "beta": numbers(1, num_tokens, 1).sigmoid(),
    }
    sent = {name: tensor.to(accelerator.device) for name, tensor in on_host.items()}
    return sent | {"cu_seqlens": on_device(accelerator, lengths), "use_qk_l2norm_in_kernel": True}


@pytest.mark.parametrize("cached", [False, True])
def test_a_forward_made_its_tables_itself(accelerator, cached):
    lengths = [5, 0, 70]
    args = arguments(accelerator, lengths)
    tables = upload_chunk_tables(starts_of(lengths), accelerator.device)
    right = chunk_gated_delta_rule(**args, **tables._asdict(), output_final_state=True)
    found = each_layer.chunk_gated_delta_rule(**args, output_final_state=True, cached=cached)
    for ours, was in zip(right, found, strict=True):
        assert torch.equal(ours.cpu(), was.cpu())


def test_three_waits_in_each_forward_or_in_the_first_of_a_step(accelerator):
    lengths, layers = [5, 0, 70], 2
    args = arguments(accelerator, lengths)
    tables = upload_chunk_tables(starts_of(lengths), accelerator.device)._asdict()

    def step(forward, **more):
        starts = args["cu_seqlens"].clone()
        for _ in range(layers):
            forward(**args | more | {"cu_seqlens": starts})

    was = each_layer.chunk_gated_delta_rule
    assert waits(accelerator, lambda: step(was)) == (3 * layers, layers, 2 * layers)
    assert waits(accelerator, lambda: step(was, cached=True)) == (3, 1, 2)
    assert waits(accelerator, lambda: step(chunk_gated_delta_rule, **tables)) == (0, 0, 0)


def test_without_starts_there_are_no_tables_to_make(accelerator):
    args = arguments(accelerator, [20]) | {"cu_seqlens": None}
    right, _ = chunk_gated_delta_rule(**args)
    found, _ = each_layer.chunk_gated_delta_rule(**args)
    assert torch.equal(found.cpu(), right.cpu())
    assert waits(accelerator, lambda: each_layer.chunk_gated_delta_rule(**args)) == (0, 0, 0)
