"""_prepare_kv_sharing_fast_prefill, after and before the change: an index buffer without stale
entries."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from solutions.sync_free.before import kv_sharing as before
from solutions.sync_free.sites import kv_sharing
from tests.common import claims
from tests.common.refusals import expect_refused

BOTH = pytest.mark.parametrize("module", [kv_sharing, before], ids=["ours", "before"])
SIZE = 10
LARGE = 4096
DIRTY = -7

indices_and_padding = st.lists(st.integers(0, 99), min_size=1, max_size=SIZE).flatmap(
    lambda indices: st.tuples(st.just(indices), st.integers(len(indices), SIZE))
)


def dirty_buffer(accelerator, size=SIZE):
    return torch.full((size,), DIRTY, dtype=torch.int32, device=accelerator.device)


def on_device(accelerator, indices, dtype=torch.int32):
    return torch.tensor(indices, dtype=dtype).to(accelerator.device)


def oracle(indices, size=SIZE):
    return [indices[min(place, len(indices) - 1)] for place in range(size)]


@BOTH
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@given(case=indices_and_padding)
def test_the_whole_tail_repeats_the_last_index(accelerator, module, dtype, case):
    indices, num_padded = case
    buffer = dirty_buffer(accelerator)
    logits_indices = on_device(accelerator, indices, dtype)
    padded = module._prepare_kv_sharing_fast_prefill(buffer, logits_indices, num_padded)
    assert buffer.tolist() == oracle(indices)
    assert padded.dtype == torch.int32
    assert padded.data_ptr() == buffer.data_ptr()
    assert padded.tolist() == oracle(indices)[:num_padded]


@BOTH
def test_4096_requests(accelerator, module):
    indices = list(range(2, 2 + LARGE))
    buffer = dirty_buffer(accelerator, 2 * LARGE)
    logits_indices = on_device(accelerator, indices)
    module._prepare_kv_sharing_fast_prefill(buffer, logits_indices, LARGE)
    assert buffer.tolist() == oracle(indices, 2 * LARGE)


def test_a_smaller_step_leaves_nothing_of_a_larger_one(accelerator):
    buffer = dirty_buffer(accelerator)
    for indices in ([3, 5, 70, 80, 90], [1, 2], [4], [0, 0, 9]):
        logits_indices = on_device(accelerator, indices)
        kv_sharing._prepare_kv_sharing_fast_prefill(buffer, logits_indices, 4 + len(indices))
        assert buffer.tolist() == oracle(indices)


@pytest.mark.parametrize("part", [(0, 3), (2, 7), (7, 10), (0, SIZE)])
def test_the_indices_may_lie_in_the_buffer_itself(accelerator, part):
    buffer = on_device(accelerator, list(range(20, 20 + SIZE)))
    indices = list(range(20, 20 + SIZE))[slice(*part)]
    kv_sharing._prepare_kv_sharing_fast_prefill(buffer, buffer[slice(*part)], SIZE)
    assert buffer.tolist() == oracle(indices)


def test_every_second_entry_of_the_buffer_is_taken_before_it_is_written(accelerator):
    buffer = on_device(accelerator, list(range(20, 20 + SIZE)))
    kv_sharing._prepare_kv_sharing_fast_prefill(buffer, buffer[1::2], SIZE)
    assert buffer.tolist() == oracle([21, 23, 25, 27, 29])


def test_nothing_is_uploaded_and_nobody_waits(accelerator):
    buffer, indices = dirty_buffer(accelerator), on_device(accelerator, [3, 5])
    call = lambda: kv_sharing._prepare_kv_sharing_fast_prefill(buffer, indices, 4)
    claims.expect_no_wait(accelerator, call, pinned_uploads=0)


def test_before_waited_for_one_number(accelerator):
    buffer, indices = dirty_buffer(accelerator), on_device(accelerator, [3, 5])
    call = lambda: before._prepare_kv_sharing_fast_prefill(buffer, indices, 4)
    counts = claims.counts_of(accelerator, call)
    assert (counts["host_syncs"], counts["d2h"]) == (1, 1)


@pytest.mark.gpu
def test_the_host_returns_at_once_also_with_4096_requests(accelerator):
    buffer = dirty_buffer(accelerator, 2 * LARGE)
    indices = on_device(accelerator, list(range(LARGE)))
    call = lambda: kv_sharing._prepare_kv_sharing_fast_prefill(buffer, indices, LARGE)
    claims.expect_host_returns(accelerator, call)


def test_overlapped_steps_each_find_their_own_indices(accelerator):
    buffer = dirty_buffer(accelerator)
    inputs = [list(range(step, step + 1 + step % 5)) for step in range(claims.OVERLAPPED_CALLS)]
    uploaded = {step[0]: on_device(accelerator, step) for step in inputs}

    def call(indices):
        logits_indices = uploaded[indices[0]]
        kv_sharing._prepare_kv_sharing_fast_prefill(buffer, logits_indices, SIZE)
        return buffer.clone()

    results = claims.overlapped(accelerator, call, inputs)
    assert [found.tolist() for found in results] == [oracle(indices) for indices in inputs]


def test_a_replayed_graph_reads_the_indices_of_its_step(accelerator):
    buffer = dirty_buffer(accelerator)
    hidden = torch.arange(100, device=accelerator.device) * 10
    rows = torch.zeros(SIZE, dtype=hidden.dtype, device=accelerator.device)
    first = on_device(accelerator, [3, 5, 70, 80, 90])
    read = kv_sharing._prepare_kv_sharing_fast_prefill(buffer, first, SIZE)
    graph, _ = claims.captured(accelerator, lambda: torch.index_select(hidden, 0, read, out=rows))
    for indices in ([1, 2], [0, 4, 9]):
        logits_indices = on_device(accelerator, indices)
        kv_sharing._prepare_kv_sharing_fast_prefill(buffer, logits_indices, len(indices))
        graph.replay()
        assert rows.tolist() == [10 * index for index in oracle(indices)]


@pytest.mark.parametrize(
    ("indices", "num_padded", "message"),
    [
        ([], 4, "0 logits indices: there must be one at least"),
        (list(range(11)), 11, "11 logits indices: this buffer holds 10"),
        ([1, 2], 11, "2 logits indices padded to 11"),
        ([1, 2, 3], 2, "3 logits indices padded to 2"),
        ([[1, 2], [3, 4]], 4, r"logits indices of shape \[2, 2\]"),
        (7, 4, r"logits indices of shape \[\]"),
    ],
)
def test_what_does_not_fit_is_refused(accelerator, indices, num_padded, message):
    buffer, logits_indices = dirty_buffer(accelerator), on_device(accelerator, indices)
    call = lambda: kv_sharing._prepare_kv_sharing_fast_prefill(buffer, logits_indices, num_padded)
    expect_refused(accelerator, call, message, unchanged=(buffer,))


def test_other_types_are_refused(accelerator):
    buffer, indices = dirty_buffer(accelerator), on_device(accelerator, [1, 2])
    for arguments, message in (
        ((buffer.long(), indices), "a buffer of torch.int64"),
        ((buffer.view(2, 5), indices), r"a buffer of torch.int32 \[2, 5\]"),
        ((buffer, indices.float()), "logits indices of torch.float32"),
        ((buffer, torch.tensor([1, 2])), "logits indices on cpu, and the buffer on"),
    ):
        call = lambda both=arguments: kv_sharing._prepare_kv_sharing_fast_prefill(*both, 4)
        expect_refused(accelerator, call, message, unchanged=(buffer,))
