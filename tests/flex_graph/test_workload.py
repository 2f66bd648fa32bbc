"""The requests of tests and benchmarks: reproducible tokens, blocks, and garbage."""

import numpy as np
import pytest

from solutions.flex_graph.steps.limits import Limits
from solutions.flex_graph.steps.workload import Requests

from .shared_prefixes import SharingRequests

LIMITS = Limits(max_num_seqs=8, max_num_batched_tokens=512, max_model_len=200, num_gpu_blocks=64)
STEPS = [
    [range(0, 40), range(0, 100)],
    {1: range(100, 101), 0: range(40, 57), 5: range(0, 1)},
    [range(57, 58), range(101, 102), range(0, 90)],
]


def used_blocks(batch, row):
    return batch.block_table[row, : -(-batch.seq_lens[row] // LIMITS.block_size)].tolist()


def test_every_batch_is_one_that_can_be():
    requests = Requests(LIMITS)
    for scheduled in STEPS:
        requests.batch(scheduled).check(LIMITS, vocab_size=64)


def test_rows_are_in_the_order_given_without_those_that_rest():
    batch = Requests(LIMITS).batch({3: range(7, 9), 0: range(0, 5), 2: range(4, 4)})
    assert batch.query_lens.tolist() == [2, 5]
    assert batch.seq_lens.tolist() == [9, 5]
    batch = Requests(LIMITS).batch([range(0), range(0, 5)])
    assert batch.seq_lens.tolist() == [5]
    assert Requests(LIMITS).batch([range(0)]).num_tokens == 0


def test_tokens_follow_from_seed_request_and_position():
    requests, batch = Requests(LIMITS, seed=3), Requests(LIMITS, seed=3).batch(STEPS[0])
    told = [requests.token_ids(0, range(0, 40)), requests.token_ids(1, range(0, 100))]
    assert batch.token_ids.tolist() == np.concatenate(told).tolist()
    assert told[1][40:57].tolist() == requests.token_ids(1, range(40, 57)).tolist()
    others = Requests(LIMITS, seed=4).token_ids(1, range(0, 100))
    assert told[0].tolist() != told[1][:40].tolist()
    assert told[1].tolist() != others.tolist()


def test_a_request_keeps_its_blocks_and_nobody_else_has_them():
    requests = Requests(LIMITS)
    first = requests.batch(STEPS[0])
    second = requests.batch(STEPS[1])
    assert used_blocks(second, 0)[:7] == used_blocks(first, 1)
    assert used_blocks(second, 1)[:3] == used_blocks(first, 0)
    held = [block for row in range(3) for block in used_blocks(second, row)]
    assert len({*held}) == len(held)
    assert 0 not in held


def test_blocks_lie_in_another_order_with_another_seed():
    orders = {tuple(used_blocks(Requests(LIMITS, seed).batch(STEPS[0]), 1)) for seed in range(4)}
    assert len(orders) == 4
    assert all(list(order) != sorted(order) for order in orders)


def test_behind_its_blocks_a_table_holds_all_kinds_of_garbage():
    requests = Requests(LIMITS)
    tails = [requests.batch([range(position, position + 1)] * 4) for position in range(8)]
    garbage = np.concatenate([batch.block_table[:, 1:].reshape(-1) for batch in tails])
    held = [block for blocks in requests.blocks.values() for block in blocks]
    assert {-1, 64, np.iinfo(np.int32).max, np.iinfo(np.int32).min} < {*garbage.tolist()}
    assert np.isin(garbage, held).any()
    assert (np.isin(garbage, range(1, 64))).mean() > 0.3


def test_a_shared_prefix_is_the_same_tokens_in_the_same_blocks():
    requests = SharingRequests(LIMITS)
    requests.share_prefix(0, 1, 48)
    batch = requests.batch([range(0, 100), range(48, 100)])
    assert used_blocks(batch, 0)[:3] == used_blocks(batch, 1)[:3]
    assert not {*used_blocks(batch, 0)[3:]} & {*used_blocks(batch, 1)[3:]}
    ids = [requests.token_ids(request, range(0, 100)) for request in (0, 1)]
    assert ids[0][:48].tolist() == ids[1][:48].tolist()
    assert ids[0][48:].tolist() != ids[1][48:].tolist()


def test_a_prefix_of_a_prefix():
    requests = SharingRequests(LIMITS)
    requests.share_prefix(0, 1, 48)
    requests.share_prefix(1, 2, 64)
    ids = [requests.token_ids(request, range(0, 80)).tolist() for request in (0, 1, 2)]
    assert ids[2][:48] == ids[0][:48]
    assert ids[2][:64] == ids[1][:64]
    assert ids[2] != ids[1]


def test_what_does_not_fit_is_refused():
    requests = SharingRequests(LIMITS)
    with pytest.raises(ValueError, match="request 1 would have 201 tokens: max_model_len is 200"):
        requests.batch([range(0, 5), range(200, 201)])
    with pytest.raises(ValueError, match="request 4 needs 13 more blocks, and 11 of 64 are free"):
        requests.batch([range(0, 200)] * 8)
    with pytest.raises(ValueError, match="a prefix of 40 tokens: share whole blocks of 16"):
        SharingRequests(LIMITS).share_prefix(0, 1, 40)
    with pytest.raises(ValueError, match="request 1 has blocks already"):
        requests.share_prefix(0, 1, 16)
