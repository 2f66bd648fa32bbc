"""The pages of each group in torch ops, compared with loops."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given

from solutions.flex_graph.mask import CAUSAL, sliding_window
from solutions.flex_graph.tables.direct_build import kv_blocks
from tests.common import claims

from .tables import LIMITS, MASKS, Batch, Results, expected_pages, listed, on_device, some_batches


def call_of(accelerator, batch, mask=CAUSAL, limits=LIMITS):
    common = batch.common(accelerator)
    rows = [row for _, row, _ in batch.tokens()]
    doc_ids = on_device(accelerator, rows + [0] * (limits.max_num_batched_tokens - len(rows)))
    return lambda: kv_blocks(
        common.block_table,
        common.query_start_loc,
        common.seq_lens,
        doc_ids,
        limits,
        mask,
        batch.num_tokens,
    )


@pytest.mark.parametrize("name", MASKS)
@given(batch=some_batches())
def test_the_pages_are_those_that_loops_find_in_ascending_order(accelerator, name, batch):
    if not batch.seq_lens:
        batch = batch.in_all_rows()
    kv_num_blocks, kv_indices = call_of(accelerator, batch, MASKS[name])()
    groups, columns = LIMITS.groups_of(batch.num_tokens), batch.table.shape[1]
    assert kv_num_blocks.dtype == kv_indices.dtype == torch.int32
    assert kv_indices.shape == (groups, LIMITS.q_block * columns + 1)
    assert listed(kv_num_blocks, kv_indices) == [*map(sorted, expected_pages(batch, MASKS[name]))]


def test_behind_the_last_page_all_is_minus_one(accelerator):
    _, kv_indices = call_of(accelerator, Batch.of([(17, 20, [3, 5])], num_tokens=40))()
    assert [[block for block in row if block != -1] for row in kv_indices.tolist()] == [
        [3, 5],
        [3, 5],
        [],
    ]


def test_of_many_entries_for_one_block_the_last_says_where_it_is(accelerator):
    limits = replace(LIMITS, max_model_len=1024)
    batch = Batch.of([(1, 1024, [3] * 64)], limits)
    assert listed(*call_of(accelerator, batch, sliding_window(16), limits)()) == [[3]]
    batch = Batch.of([(17, 1024, [3] * 62 + [4, 4])], limits)
    assert listed(*call_of(accelerator, batch, sliding_window(1), limits)()) == [[4], [4]]


def test_trap_4_garbage_behind_the_length_is_no_page(accelerator):
    batch = Batch.of([(1, 5, [3]), (1, 30, [7, 8])])
    assert listed(*call_of(accelerator, batch)()) == [[3, 7, 8]]
    as_if_all_were_pages = Batch(batch.query_lens, [70, 70], batch.table, batch.num_tokens)
    assert listed(*call_of(accelerator, as_if_all_were_pages)()) != [[3, 7, 8]]


def test_it_neither_waits_nor_uploads(accelerator):
    batch = Batch.shuffled([(1, 33), (20, 70)])
    claims.expect_no_wait(accelerator, call_of(accelerator, batch), pinned_uploads=0)


def test_trap_12_it_can_be_captured_where_a_length_read_by_the_host_can_not(accelerator):
    call = call_of(accelerator, Batch.shuffled([(1, 33), (20, 70)]))
    expected = listed(*call())
    graph, built = claims.captured(accelerator, call, warm_up=False)
    graph.replay()
    assert listed(*built) == expected


def test_trap_11_its_memory_does_not_grow_with_the_cache(accelerator):
    of_caches = []
    for num_gpu_blocks in (24, 10**6):
        limits = replace(LIMITS, num_gpu_blocks=num_gpu_blocks)
        call = call_of(accelerator, Batch.shuffled([(1, 33), (20, 70)]), limits=limits)
        with Results() as results:
            call()
        of_caches.append([tensor.numel() for tensor in results.tensors])
    assert of_caches[0] == of_caches[1]
