"""The map from a block to its place in a request, in torch ops."""

import numpy as np
import pytest
import torch
from hypothesis import given

from solutions.flex_graph.tables.direct_build import physical_to_logical_mapping
from tests.common import claims

from .tables import LIMITS, Batch, expected_places, on_device, some_batches


def mapping_of(accelerator, table, seq_lens, num_blocks=8, page=16):
    table, seq_lens = on_device(accelerator, table), on_device(accelerator, seq_lens)
    return physical_to_logical_mapping(table, seq_lens, page, num_blocks)


def test_the_null_block_belongs_to_nobody(accelerator):
    mapping = mapping_of(accelerator, [[6, 0, 0, 0]], [16])
    assert mapping.tolist() == [[-1, -1, -1, -1, -1, -1, 0, -1]]
    assert mapping_of(accelerator, [[0, 6, 0, 0]], [64]).tolist()[0][0] == -1


def test_of_two_entries_for_one_block_the_last_wins(accelerator):
    mapping = mapping_of(accelerator, [[2, 2, 5]], [48])
    assert mapping.tolist() == [[-1, -1, 1, -1, -1, 2, -1, -1]]


def test_blocks_that_there_are_not_are_ignored(accelerator):
    assert mapping_of(accelerator, [[-1, 8, 10**9, 7]], [64]).tolist() == [[-1] * 7 + [3]]


@pytest.mark.parametrize("seq_len", [0, 1, 16, 17, 32])
def test_a_page_that_is_begun_counts(accelerator, seq_len):
    expected = [[-1, 0 if seq_len else -1, 1 if seq_len > 16 else -1, -1]]
    assert mapping_of(accelerator, [[1, 2, 3]], [seq_len], num_blocks=4).tolist() == expected


def test_trap_4_garbage_behind_the_length_maps_nothing(accelerator):
    table = [[3, 5, 6, 1], [4, 3, 7, 99]]
    mapping = mapping_of(accelerator, table, [20, 7])
    assert mapping.tolist() == [[-1, -1, -1, 0, -1, 1, -1, -1], [-1, -1, -1, -1, 0, -1, -1, -1]]
    as_if_all_were_pages = mapping_of(accelerator, [row[:3] for row in table], [48, 48])
    assert as_if_all_were_pages[1, 3].item() == 1, "a block of somebody else's"


@given(batch=some_batches())
def test_it_is_what_loops_say(accelerator, batch):
    mapping = mapping_of(
        accelerator, batch.table, batch.seq_lens, LIMITS.num_gpu_blocks, LIMITS.block_size
    )
    assert mapping.dtype == torch.int32
    assert np.array_equal(mapping.cpu().numpy(), expected_places(batch))


def test_no_wait_and_no_upload(accelerator):
    common = Batch.shuffled([(1, 33), (4, 70)]).common(accelerator)
    call = lambda: physical_to_logical_mapping(common.block_table, common.seq_lens, 16, 24)
    claims.expect_no_wait(accelerator, call, pinned_uploads=0)
