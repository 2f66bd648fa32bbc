"""The exchange between data-parallel ranks: all ranks learn the same, and no host waits."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

import debubble
from solutions.sync_free.before import data_parallel as before
from solutions.sync_free.model.data_parallel_group import DataParallelGroup, own_column_kernel
from solutions.sync_free.model.exchanges import unanswered
from solutions.sync_free.model.ranks import Agreement, agreement_of
from solutions.sync_free.sites.data_parallel import _run_ar
from tests.common import claims
from tests.common.ranks import BACKENDS, MAX_TOKENS, run_ranks
from tests.gate import closed_gate, gate_that_waits_open

from . import data_parallel_ranks
from .data_parallel_ranks import STEPS, numbers_of


@st.composite
def numbers(draw) -> dict[str, int | bool]:
    original = draw(st.integers(0, 2**31 - 1))
    return {
        "should_ubatch": draw(st.booleans()),
        "orig_num_tokens": original,
        "padded_num_tokens": draw(st.integers(original, 2**31 - 1)),
        "cudagraph_mode": draw(st.integers(0, 2**31 - 1)),
    }


def expected_state(of_ranks: list[dict[str, int | bool]]) -> list[list[int]]:
    """Returns the expected state of an exchange, [4, ranks], from the numbers of each rank."""
    names = ("orig_num_tokens", "padded_num_tokens", "should_ubatch", "cudagraph_mode")
    return [[int(numbers[name]) for numbers in of_ranks] for name in names]


@pytest.fixture(scope="module")
def world(accelerator, tmp_path_factory):
    """Starts a process group with this process as its only rank, and returns it."""
    rendezvous = tmp_path_factory.mktemp("world") / "rendezvous"
    backend = BACKENDS[accelerator.name]
    dist.init_process_group(backend, init_method=f"file://{rendezvous}", rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.fixture(scope="module", params=["alone", "one rank of a process group"])
def group(request):
    if request.param == "alone":
        return DataParallelGroup.alone()
    return DataParallelGroup(request.getfixturevalue("world"), 1)


@pytest.fixture(scope="module")
def ranks(accelerator, tmp_path_factory):
    """Returns what each rank of a group saw: 4 processes with gloo on sim, or 2 with NCCL on two
    GPUs; with fewer GPUs the test is skipped."""
    if accelerator.name == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip(f"two NCCL ranks need 2 GPUs, and here is {torch.cuda.device_count()}")
    size = 4 if accelerator.modelled else 2
    return run_ranks(
        accelerator.name, size, tmp_path_factory.mktemp("ranks"), data_parallel_ranks.__name__
    )


def test_every_rank_reads_the_columns_of_all_in_64_overlapped_steps(ranks):
    right = [
        expected_state([numbers_of(rank, step) for rank in range(len(ranks))])
        for step in range(STEPS)
    ]
    for rank in ranks:
        assert rank["overlapped"]["states"] == right
        assert rank["overlapped"]["hazards"] == []


def test_no_rank_waits_or_uploads(ranks):
    for rank in ranks:
        counts = rank["overlapped"]["counts"]
        assert counts["host_syncs"] == counts["h2d_pageable"] == counts["h2d_pinned"] == 0
        assert counts["d2h"] == STEPS


def test_ranks_read_while_their_compute_streams_are_busy(ranks):
    right = expected_state([numbers_of(rank, 5) for rank in range(len(ranks))])
    for rank in ranks:
        seen = rank["behind a busy device"]
        assert seen["state"] == right
        assert seen["returned while busy"]
        assert seen["read while busy"]


def test_ranks_that_disagree_are_all_refused_with_one_sentence(ranks):
    size = len(ranks)
    words = {
        "size": f"data parallel size: {[size] * (size - 1) + [size + 1]}",
        "limit": f"max_num_tokens: {[MAX_TOKENS] * (size - 1) + [MAX_TOKENS + 1]}",
        "rows": f"rows: {[4] * (size - 1) + [5]}",
    }
    for rank in ranks:
        assert rank["disagreements"] == {
            what: f"the ranks disagree on their {values}, rank 0 first; start all of them with "
            "the same"
            for what, values in words.items()
        }


@pytest.mark.sim
def test_two_ranks_may_be_a_group_within_four(ranks):
    for number, rank in enumerate(ranks):
        first = number // 2 * 2
        assert rank["pair"] == expected_state([numbers_of(first, 1), numbers_of(first + 1, 1)])


@given(numbers())
def test_one_rank_reads_its_own_numbers(group, numbers):
    for run in (_run_ar, before._run_ar):
        state = run(**numbers, group=group).read()
        assert state.device.type == "cpu" and state.dtype == torch.int32
        assert state.tolist() == expected_state([numbers])


def test_numbers_may_be_numpys(group):
    state = _run_ar(np.bool_(True), np.int32(1), np.int64(16), np.int32(2), group).read()
    assert state.tolist() == [[1], [16], [1], [2]]


def test_nobody_waits_and_nothing_is_uploaded(accelerator, group):
    def call():
        return _run_ar(**numbers_of(0, 3), group=group)

    counts = claims.expect_no_wait(accelerator, call, pinned_uploads=0)
    assert (counts["h2d_pinned"], counts["d2h"]) == (0, 1)


def test_before_waits_for_each_number_and_for_the_read(accelerator, group):
    counts = claims.counts_of(
        accelerator, lambda: before._run_ar(**numbers_of(0, 3), group=group).read()
    )
    assert (counts["host_syncs"], counts["h2d_pageable"], counts["d2h"]) == (5, 4, 1)


def test_all_of_64_overlapped_steps_are_right(accelerator, group):
    steps = [numbers_of(0, step) for step in range(claims.OVERLAPPED_CALLS)]
    pending = claims.overlapped(accelerator, lambda step: _run_ar(**step, group=group), steps)
    assert [state.read().tolist() for state in pending] == [
        expected_state([step]) for step in steps
    ]


def test_what_was_read_is_the_callers_to_keep(group):
    first = _run_ar(False, 1, 8, 0, group)
    state = first.read()
    for _ in range(4):
        _run_ar(True, 5, 5, 2, group).read()
    assert state.tolist() == first.read().tolist() == [[1], [8], [0], [0]]


def test_a_result_that_nobody_reads_does_no_harm(accelerator, group):
    with debubble.record(accelerator) as timeline:
        for _ in range(4):
            _run_ar(False, 1, 8, 0, group)
        state = _run_ar(True, 2, 16, 1, group).read()
    assert state.tolist() == [[2], [16], [1], [1]]
    assert not timeline.hazards


def test_it_is_read_while_the_compute_stream_is_busy(accelerator, group):
    claims.warm_up(accelerator, lambda: _run_ar(**numbers_of(0, 2), group=group).read())
    with debubble.record(accelerator) as timeline, closed_gate(accelerator) as gate:
        state = _run_ar(**numbers_of(0, 3), group=group).read()
        assert gate.closed
    assert state.tolist() == expected_state([numbers_of(0, 3)])
    assert not timeline.hazards


def test_what_is_there_is_read_without_a_wait(accelerator, group):
    pending = _run_ar(**numbers_of(0, 3), group=group)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline, debubble.no_host_syncs():
        pending.read()
    assert timeline.counts()["host_syncs"] == 0


def test_what_is_not_there_yet_is_waited_for_once(accelerator, group):
    with (
        debubble.record(accelerator) as timeline,
        group.stream,
        gate_that_waits_open(accelerator),
    ):
        pending = _run_ar(**numbers_of(0, 3), group=group)
        states = [pending.read().tolist(), pending.read().tolist()]
    assert states == [expected_state([numbers_of(0, 3)])] * 2
    assert timeline.counts()["host_syncs"] == 1
    assert not timeline.hazards


def test_it_works_where_nothing_can_be_pinned(accelerator, group, monkeypatch):
    monkeypatch.setattr(accelerator, "pin_memory", False, raising=False)
    assert _run_ar(True, 2, 16, 1, group).read().tolist() == [[2], [16], [1], [1]]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"orig_num_tokens": -1}, "-1 tokens"),
        ({"padded_num_tokens": 9}, "9 padded tokens for 10"),
        ({"padded_num_tokens": 8193}, "8193 padded tokens: .* at most 8192"),
        ({"cudagraph_mode": -1}, "graph mode -1"),
        ({"cudagraph_mode": 2**31}, "graph mode 2147483648"),
    ],
    ids=lambda value: next(iter(value.items()))[1] if isinstance(value, dict) else None,
)
def test_what_no_rank_can_run_is_refused_before_anything_is_launched(accelerator, wrong, words):
    group = DataParallelGroup.alone(max_num_tokens=8192)
    right = {"orig_num_tokens": 10, "padded_num_tokens": 16, "cudagraph_mode": 1}
    with (
        debubble.record(accelerator) as timeline,
        pytest.raises(ValueError, match=words),
    ):
        _run_ar(should_ubatch=True, **{**right, **wrong}, group=group)
    assert timeline.events == []
    state = _run_ar(should_ubatch=True, **right, group=group).read()
    assert state.tolist() == [[10], [16], [1], [1]]


def test_a_size_that_is_not_the_process_groups_is_refused(world):
    with pytest.raises(ValueError, match="data parallel size 2, and 1 ranks in the process group"):
        DataParallelGroup(world, 2)


@pytest.mark.gpu
def test_the_numbers_are_no_part_of_what_is_compiled(accelerator, group):
    """Exchanges with any numbers compile one kernel. Without care Triton would compile one for the
    number 1, and one for multiples of 16."""
    compiled = own_column_kernel.device_caches[accelerator.device.index][0]
    compiled.clear()
    for number in (0, 1, 3, 16, 2**31 - 1):
        _run_ar(bool(number % 2), number, number, number, group)
    assert len(compiled) == 1


def test_the_step_follows_the_largest_batch_and_the_least_able_rank():
    state = torch.tensor([[10, 3], [16, 8], [1, 0], [2, 1]], dtype=torch.int32)
    assert agreement_of(state) == Agreement(num_tokens=16, should_ubatch=False, cudagraph_mode=1)
    state[2] = 1
    assert agreement_of(state).should_ubatch is True


def test_the_host_returns_at_once_and_reads_soon(accelerator, group):
    """An exchange returns, and can be read, while the stream of the model is busy."""
    claims.expect_host_returns(accelerator, lambda: _run_ar(**numbers_of(0, 3), group=group))
    claims.expect_host_returns(accelerator, lambda: _run_ar(**numbers_of(0, 3), group=group).read())


@pytest.mark.parametrize("timeout_s", [0, -1.0, 10**6])
def test_a_timeout_that_is_none_is_refused(world, timeout_s):
    with pytest.raises(ValueError, match=f"timeout_s is {timeout_s!r}: give seconds, above 0"):
        DataParallelGroup(world, 1, timeout_s=timeout_s)


def test_at_the_start_no_timeout_is_named():
    assert unanswered(4, 0, [1, 3], None) == (
        "exchange 0 of the data-parallel ranks, at the start, failed: ranks 1, 3 of 4 did not take "
        "part; restart all of them"
    )
