"""The tables that three kernels make, compared with loops and with torch ops, step after step."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from solutions.flex_graph.buffers import PersistentBuffers, copy_to_persistent
from solutions.flex_graph.mask import CAUSAL, Mask, sliding_window
from solutions.flex_graph.steps.limits import ALONE
from solutions.flex_graph.tables import device_build
from solutions.flex_graph.tables.device_build import build_on_device
from solutions.flex_graph.tables.direct_build import kv_blocks, physical_to_logical_mapping
from tests.common import claims

from .tables import (
    LIMITS,
    MASKS,
    Batch,
    expect_built,
    expected_pages,
    listed,
    on_device,
    some_batches,
)

WITH_GARBAGE = 10**6
"""A number that tests write into tables: a build must overwrite it, or must leave it in unchanged
entries."""


def built(accelerator, batch, mask=CAUSAL, limits=LIMITS, buffers=None):
    """Builds the tables of this batch by kernels, in `buffers` or in new ones, and returns the
    buffers."""
    buffers = buffers or PersistentBuffers(limits, accelerator.device)
    batch.in_all_rows(limits).copy_into(buffers)
    build_on_device(buffers, limits, mask, batch.num_tokens, max([0, *batch.seq_lens]))
    return buffers


def lists_of(buffers, num_tokens, limits=LIMITS):
    groups = limits.groups_of(num_tokens)
    return listed(buffers.kv_num_blocks[:groups], buffers.kv_indices[:groups])


@pytest.fixture(scope="module")
def used(accelerator):
    """Returns {mask name: buffers}, used by all tests of the module, so that a build finds what the
    build before it left."""
    return {name: PersistentBuffers(LIMITS, accelerator.device) for name in MASKS}


@pytest.mark.parametrize("name", MASKS)
@given(batch=some_batches())
@settings(max_examples=25)
def test_it_is_what_loops_and_torch_ops_say_whatever_was_there(accelerator, used, name, batch):
    buffers, mask = built(accelerator, batch, MASKS[name], buffers=used[name]), MASKS[name]
    expect_built(buffers, batch, mask)
    tables = buffers.block_table, buffers.query_start_loc, buffers.seq_lens
    _, by_ops = kv_blocks(*tables, buffers.doc_ids, LIMITS, mask, batch.num_tokens)
    pages = lists_of(buffers, batch.num_tokens)
    assert [[block for block in row if block >= 0] for row in by_ops.tolist()] == [
        *map(sorted, pages)
    ]
    mapping = physical_to_logical_mapping(buffers.block_table, buffers.seq_lens, 16, 24)
    assert torch.equal(buffers.physical_to_logical.cpu(), mapping.cpu())
    entries = [
        table[: LIMITS.pages_of(n)] for table, n in zip(batch.table, batch.seq_lens, strict=True)
    ]
    users = Counter(block for row in entries for block in row.tolist())
    expected_users = [0] + [users[block] for block in range(1, LIMITS.num_gpu_blocks)]
    assert buffers.page_users.tolist() == expected_users


def test_a_block_counts_for_a_later_request_where_an_earlier_one_does_not_need_it(accelerator):
    """A block that two requests share is listed even if the first one doesn't need it: the window
    of the first begins after this block, but the second sees it."""
    batch = Batch.of([(1, 60, [7, 8, 3, 4]), (1, 10, [7])])
    buffers = built(accelerator, batch, sliding_window(20))
    assert lists_of(buffers, 2) == [[3, 4, 7]]


@pytest.mark.parametrize(
    ("mask", "pages"),
    [
        (sliding_window(16), [[2, 3], [3, 4], [4]]),
        (sliding_window(17), [[1, 2, 3], [2, 3, 4], [3, 4]]),
        (Mask(causal=False, sliding_window=2), [[2, 3], [3, 4], [4]]),
        (Mask(causal=False, sliding_window=3), [[2, 3, 4], [3, 4], [4]]),
    ],
    ids=["16", "17", "2 on both sides", "3 on both sides"],
)
def test_a_window_that_ends_at_a_pages_edge_reaches_no_further(accelerator, mask, pages):
    """The lists have no page whose last position lies just outside the window. (The batch's three
    groups have the positions 31 to 46, 47 to 62, and 63.)"""
    batch = Batch.of([(33, 64, [1, 2, 3, 4])])
    assert lists_of(built(accelerator, batch, mask), 33) == pages == expected_pages(batch, mask)


def test_trap_7_a_window_leaves_pages_out_as_the_lists_are_built(accelerator):
    batch = Batch.of([(40, 70, [1, 2, 3, 4, 5])])
    windowed = lists_of(built(accelerator, batch, sliding_window(8)), 40)
    assert windowed == [[2, 3], [3, 4], [4, 5]]
    as_if_it_came_later = lists_of(built(accelerator, batch), 40)
    assert [len(pages) for pages in as_if_it_came_later] == [3, 4, 5]


def test_trap_4_garbage_behind_the_length_is_no_page(accelerator):
    batch = Batch.of([(1, 20, [6, 7])])
    assert lists_of(built(accelerator, batch), 1) == [[6, 7]]
    as_if_all_were_pages = Batch([1], [70], batch.table, 1)
    assert 2 in lists_of(built(accelerator, as_if_all_were_pages), 1)[0], "somebody else's block"


def test_trap_4_a_list_ends_with_minus_one_which_a_kernel_may_load_ahead(accelerator):
    buffers = built(accelerator, Batch.of([(1, 70, [1, 2, 3, 4, 5])]))
    without_an_end = buffers.kv_indices.clone()
    built(accelerator, Batch.of([(1, 20, [6, 7])]), buffers=buffers)
    assert buffers.kv_indices[0, :5].tolist() == [6, 7, -1, 4, 5], "behind that, what was there"
    copy_to_persistent(without_an_end, on_device(accelerator, [[6, 7]]))
    assert without_an_end[0, 2].item() == 3, "a page of another step"


def test_a_full_list_has_room_for_its_end(accelerator):
    """The longest possible list of pages still ends with -1: its group has as many requests as
    tokens, all of the greatest length."""
    limits = replace(LIMITS, max_num_seqs=16, num_gpu_blocks=81)
    batch = Batch.shuffled([(1, 70)] * 16, limits)
    buffers = built(accelerator, batch, limits=limits)
    assert lists_of(buffers, 16, limits) == expected_pages(batch, CAUSAL, limits)
    assert buffers.kv_num_blocks[0].item() == buffers.kv_indices.shape[1] - 1 == 80


def test_trap_5_tokens_that_fill_a_captured_size_belong_to_a_request_that_there_is(accelerator):
    buffers = PersistentBuffers(LIMITS, accelerator.device)
    buffers.doc_ids.fill_(WITH_GARBAGE)
    built(accelerator, Batch.of([(2, 20, [3, 4])], num_tokens=33), buffers=buffers)
    assert buffers.doc_ids.tolist() == [0] * 33 + [WITH_GARBAGE] * 7
    only_its_own = torch.full_like(buffers.doc_ids, WITH_GARBAGE)
    copy_to_persistent(only_its_own, on_device(accelerator, [0, 0]))
    assert only_its_own[:33].max().item() >= LIMITS.max_num_seqs, "no row of any table"


def test_trap_6_groups_without_tokens_list_nothing(accelerator):
    """A smaller step after a larger one reads none of its plan (FlashInfer #5176)."""
    buffers = built(accelerator, Batch.shuffled([(40, 70)]))
    used_groups_alone = buffers.kv_num_blocks.clone()
    built(accelerator, Batch.of([(2, 20, [3, 4])], num_tokens=40), buffers=buffers)
    assert lists_of(buffers, 40) == [[3, 4], [], []], "pages of an earlier, larger step"
    copy_to_persistent(used_groups_alone, buffers.kv_num_blocks[:1])
    assert used_groups_alone.tolist() == [2, 4, 5], "pages of another step"


def test_trap_3_a_row_is_as_long_as_the_cache_and_there_are_as_many_as_there_can_be_requests(
    accelerator,
):
    """A graph that reads physical_to_logical in the buffers sees the next batch. A graph that reads
    a mapping made for its step still sees the step of its capture."""
    buffers = PersistentBuffers(LIMITS, accelerator.device)
    first, second = Batch.of([(1, 20, [3, 4])]), Batch.of([(1, 20, [4, 3]), (1, 9, [20])])
    block = on_device(accelerator, [3])

    def mapping_of(batch):
        common = batch.common(accelerator)
        return physical_to_logical_mapping(common.block_table, common.seq_lens, 16, 24)

    built(accelerator, first, buffers=buffers)
    of_the_step = mapping_of(first)
    read = torch.zeros(2, dtype=torch.int32, device=accelerator.device)
    graph = accelerator.graph()
    with graph.capture():
        read[:1].copy_(buffers.physical_to_logical[0, block])
        read[1:].copy_(of_the_step[0, block])
    built(accelerator, second, buffers=buffers)
    graph.replay()
    assert mapping_of(second)[0, 3].item() == 1
    assert read.tolist() == [1, 0]


@pytest.mark.gpu
@pytest.mark.gpu_memory(9)
def test_trap_10_rows_may_lie_further_apart_than_32_bits_count(accelerator):
    num_blocks = 7_200_000
    limits = replace(
        LIMITS, max_num_seqs=300, max_num_batched_tokens=300, num_gpu_blocks=num_blocks
    )
    requests = [(1, 20, [num_blocks - 1 - row, num_blocks - 2 - row]) for row in range(300)]
    batch = Batch.of(requests, limits)
    buffers = built(accelerator, batch, limits=limits)
    last_row = buffers.physical_to_logical[299, num_blocks - 301 : num_blocks - 299]
    assert last_row.tolist() == [1, 0]
    assert sum(int((rows >= 0).sum()) for rows in buffers.physical_to_logical) == 600
    assert lists_of(buffers, 300, limits) == expected_pages(batch, CAUSAL, limits)


@pytest.mark.parametrize("pages_more", [-1, 0, 1])
def test_lists_around_what_a_program_looks_at_together(accelerator, monkeypatch, pages_more):
    monkeypatch.setattr(device_build, "TILE", 4)
    seq_len = 16 * (4 + pages_more)
    steps = [[(1, seq_len), (8, seq_len)], [(1, seq_len + 16 if seq_len < 65 else 70)], [(9, 9)]]
    for mask in (CAUSAL, sliding_window(40)):
        buffers = PersistentBuffers(LIMITS, accelerator.device)
        for lengths in steps:
            batch = Batch.shuffled(lengths, seed=seq_len)
            expect_built(built(accelerator, batch, mask, buffers=buffers), batch, mask)


def test_pages_and_groups_of_other_sizes(accelerator):
    limits = replace(LIMITS, block_size=32, q_block=32, max_model_len=100)
    batch = Batch.shuffled([(30, 90), (9, 100), (1, 1)], limits)
    for mask in MASKS.values():
        expect_built(built(accelerator, batch, mask, limits), batch, mask, limits)


def test_each_token_alone_lists_the_pages_that_it_sees_itself(accelerator):
    limits = replace(LIMITS, q_block=ALONE)
    batch = Batch.shuffled([(12, 60), (3, 70), (1, 1), (0, 0)], limits)
    for mask in MASKS.values():
        expect_built(built(accelerator, batch, mask, limits), batch, mask, limits)


def test_a_request_that_goes_on_keeps_what_is_in_its_row(accelerator):
    """A build does not write entries of a continuing request's row that stay the same: an entry
    that the test changes stays changed."""
    buffers = built(accelerator, Batch.of([(1, 20, [3, 4]), (1, 20, [5, 6])]))
    buffers.physical_to_logical[:2, [3, 5]] = WITH_GARBAGE
    built(accelerator, Batch.of([(1, 33, [3, 4, 9]), (1, 20, [5, 7])]), buffers=buffers)
    assert buffers.physical_to_logical[0, [3, 4, 9]].tolist() == [WITH_GARBAGE, 1, 2]
    assert buffers.physical_to_logical[1, [5, 6, 7]].tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    "steps",
    [
        [[(1, 20, [3, 4])], [(1, 16, [3])], [(1, 17, [3, 5])]],
        [[(1, 48, [2, 2, 5])], [(1, 48, [2, 6, 5])], [(1, 48, [6, 2, 2])]],
        [[(1, 16, [3])], [], [(1, 16, [3])]],
        [[(1, 16, [3]), (1, 16, [4])], [(1, 16, [4])], [(1, 16, [3]), (1, 32, [4, 3])]],
        [[(1, 32, [0, 3])], [(1, 48, [0, 3, 0])], [(1, 48, [3, 0, 99])]],
    ],
    ids=["shorter", "twice in a table", "gone and back", "moved up a row", "null blocks"],
)
def test_what_a_step_takes_back_is_what_the_last_one_set(accelerator, steps):
    buffers = PersistentBuffers(LIMITS, accelerator.device)
    for requests in steps:
        batch = Batch.of(requests, num_tokens=2)
        expect_built(built(accelerator, batch, buffers=buffers), batch, CAUSAL)


def test_no_request_is_looked_at_beyond_the_longest(accelerator):
    buffers, batch = PersistentBuffers(LIMITS, accelerator.device), Batch.shuffled([(1, 70)])
    batch.in_all_rows().copy_into(buffers)
    build_on_device(buffers, LIMITS, CAUSAL, 1, max_seq_len=33)
    assert lists_of(buffers, 1) == [batch.table[0, :3].tolist()]


def test_three_launches_no_wait_and_no_upload(accelerator):
    buffers = built(accelerator, Batch.shuffled([(1, 33), (20, 70)]))
    call = lambda: build_on_device(buffers, LIMITS, CAUSAL, 33, 70)
    counts = claims.expect_no_wait(accelerator, call, pinned_uploads=0)
    assert (counts.pop("kernels"), *counts.values()) == (3, 0, 0, 0, 0, 0, 0)


@pytest.mark.gpu
def test_the_host_returns_at_once(accelerator):
    buffers = built(accelerator, Batch.shuffled([(1, 33), (20, 70)]))
    claims.expect_host_returns(
        accelerator, lambda: build_on_device(buffers, LIMITS, CAUSAL, 33, 70)
    )


@pytest.mark.gpu
def test_many_requests_with_many_pages_step_after_step(accelerator):
    """Builds on a GPU are right for 1 to 200 requests with many pages, step after step, although
    programs run in parallel and race for the blocks that they share."""
    limits = replace(
        LIMITS,
        max_num_seqs=200,
        max_num_batched_tokens=800,
        max_model_len=1600,
        num_gpu_blocks=4000,
    )
    buffers, random = PersistentBuffers(limits, accelerator.device), np.random.default_rng(5)
    for num_requests in (200, 70, 200, 131, 1):
        requests = []
        for query_len in random.choice([1, 1, 1, 7], num_requests).tolist():
            seq_len = query_len + int(random.integers(0, 1500))
            pages = random.integers(0, 4000, limits.pages_of(seq_len))
            num_shared = min(len(pages), random.integers(0, 40))
            pages[:num_shared] = range(100, 100 + num_shared)
            requests.append((query_len, seq_len, pages.tolist()))
        batch = Batch.of(requests, limits, num_tokens=800)
        expect_built(
            built(accelerator, batch, limits=limits, buffers=buffers), batch, CAUSAL, limits
        )
