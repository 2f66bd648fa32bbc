"""The map from a block to its place in a request, in torch ops."""

import numpy as np
import torch
from hypothesis import given

from solutions.flex_graph.tables.direct_build import physical_to_logical_mapping
from tests.common import claims

from .tables import LIMITS, Batch, expected_places, on_device, some_batches


def mapping_of(accelerator, table, seq_lens, num_blocks=8, page=16):
    table, seq_lens = on_device(accelerator, table), on_device(accelerator, seq_lens)
    return physical_to_logical_mapping(table, seq_lens, page, num_blocks)


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
