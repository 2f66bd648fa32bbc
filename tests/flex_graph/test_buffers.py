"""The sizes of the buffers that outlive a step."""

from dataclasses import replace
from math import prod

import pytest
import torch

from solutions.flex_graph.buffers import PersistentBuffers, buffer_shapes, copy_to_persistent
from solutions.flex_graph.mask import CAUSAL
from solutions.flex_graph.tables.direct_build import kv_blocks

from .tables import LIMITS, Batch


def test_the_sizes_are_the_schedulers_maxima():
    limits = replace(LIMITS, max_num_seqs=7, max_num_batched_tokens=100, max_model_len=50)
    shapes = buffer_shapes(limits)
    assert shapes["query_start_loc"] == (8,)
    assert shapes["seq_lens"] == shapes["decode_offset"] == (7,)
    assert shapes["block_table"] == (7, 4)
    assert shapes["doc_ids"] == (100,)
    assert shapes["physical_to_logical"] == (7, 24)
    assert shapes["kv_num_blocks"] == (7,)
    assert shapes["kv_indices"] == (7, 16 * 4 + 1)


def test_they_are_made_in_these_sizes_and_say_that_nobody_has_anything(accelerator):
    buffers = PersistentBuffers(LIMITS, accelerator.device)
    for name, shape in buffer_shapes(LIMITS).items():
        tensor = getattr(buffers, name)
        assert tensor.shape == shape and tensor.is_contiguous()
        assert tensor.dtype == (torch.int8 if name == "needs" else torch.int32)
        empty = -1 if name in ("physical_to_logical", "kv_indices") else 0
        assert (tensor == empty).all().item(), name


def of_the_longest_request(limits):
    """Returns the shape of the page lists in the first version: (groups of one request, pages of
    one request) of the greatest length."""
    return (-(-limits.max_model_len // limits.q_block), limits.pages_per_seq)


@pytest.mark.parametrize(
    ("limits", "lengths"),
    [
        (replace(LIMITS, max_num_batched_tokens=96), [(24, 24)] * 4),
        (replace(LIMITS, max_model_len=32), [(1, 20)] * 4),
    ],
    ids=["more tokens than a request can have", "more requests in a group than one"],
)
def test_trap_1_rows_are_for_the_tokens_of_a_step_and_columns_for_all_requests_of_a_group(
    accelerator, limits, lengths
):
    batch = Batch.shuffled(lengths, limits)
    common = batch.common(accelerator)
    rows = [row for _, row, _ in batch.tokens()]
    doc_ids = torch.tensor(rows, dtype=torch.int32).to(accelerator.device)
    counts, indices = kv_blocks(
        common.block_table,
        common.query_start_loc,
        common.seq_lens,
        doc_ids,
        limits,
        CAUSAL,
        batch.num_tokens,
    )
    needed = indices[:, : counts.max().item() + 1]
    buffers = PersistentBuffers(limits, accelerator.device)
    assert copy_to_persistent(buffers.kv_indices, needed).tolist() == needed.tolist()
    too_small = needed.new_empty(of_the_longest_request(limits))
    with pytest.raises(ValueError, match="for persistent memory of"):
        copy_to_persistent(too_small, needed)


def test_trap_11_no_table_is_of_groups_or_tokens_by_blocks():
    """Buffers don't grow with groups times blocks: more blocks enlarge only physical_to_logical and
    page_users. (Tables of the first token or group that needs each block took gigabytes.)"""
    small = replace(LIMITS, max_num_seqs=256, max_num_batched_tokens=8192, max_model_len=32_768)
    large = replace(small, num_gpu_blocks=1_000_024)
    grown = {
        name: prod(shape) - prod(buffer_shapes(small)[name])
        for name, shape in buffer_shapes(large).items()
    }
    assert grown.pop("physical_to_logical") == small.max_num_seqs * 1_000_000
    assert grown.pop("page_users") == 1_000_000
    assert set(grown.values()) == {0}
    table_of_groups = large.groups * large.num_gpu_blocks
    of_groups = sum(prod(buffer_shapes(large)[name]) for name in ("kv_indices", "needs"))
    assert of_groups < table_of_groups / 10
