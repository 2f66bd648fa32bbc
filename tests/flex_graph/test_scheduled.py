"""Scheduled batches: derived numbers, and errors for impossible batches."""

from dataclasses import replace

import numpy as np
import pytest

from solutions.flex_graph.steps.limits import Limits
from solutions.flex_graph.steps.scheduled import ScheduledBatch

LIMITS = Limits(max_num_seqs=4, max_num_batched_tokens=64, max_model_len=100, num_gpu_blocks=20)


def numbers(*values):
    return np.array(values, np.int32)


def make_batch(**changes):
    """Returns a batch of three requests: the first 5 tokens of a prompt, 17 tokens after 15
    computed ones, and a decode after 99 tokens."""
    table = np.full((3, 7), -9, np.int32)
    table[0, :1], table[1, :2], table[2] = 7, (5, 3), range(10, 17)
    batch = ScheduledBatch(
        token_ids=np.arange(23, dtype=np.int32),
        query_lens=numbers(5, 17, 1),
        seq_lens=numbers(5, 32, 100),
        block_table=table,
    )
    return replace(batch, **changes)


def test_positions_starts_and_slots_follow():
    batch = make_batch()
    batch.check(LIMITS)
    assert (batch.num_tokens, batch.max_seq_len) == (23, 100)
    assert batch.query_start_loc.tolist() == [0, 5, 22, 23]
    assert batch.positions.tolist() == [*range(5), *range(15, 32), 99]
    slots = [*range(7 * 16, 7 * 16 + 5), 5 * 16 + 15, *range(3 * 16, 4 * 16), 16 * 16 + 3]
    assert batch.slot_mapping(16).tolist() == slots
    for derived in (batch.query_start_loc, batch.positions, batch.slot_mapping(16)):
        assert derived.dtype == np.int32


def test_a_step_without_requests_is_allowed():
    nothing = numbers()
    batch = ScheduledBatch(nothing, nothing, nothing, np.empty((0, 3), np.int32))
    batch.check(LIMITS)
    assert batch.max_seq_len == batch.num_tokens == len(batch.slot_mapping(16)) == 0
    assert batch.query_start_loc.tolist() == [0]


def test_requests_without_tokens_pad_a_batch():
    lengths = {"query_lens": numbers(5, 17, 0), "seq_lens": numbers(5, 32, 0)}
    batch = make_batch(**lengths, token_ids=np.arange(22))
    batch.check(LIMITS)
    assert batch.query_start_loc.tolist() == [0, 5, 22, 22]
    assert batch.positions.tolist() == [*range(5), *range(15, 32)]
    assert len(batch.slot_mapping(16)) == 22


def test_any_signed_integers_will_do():
    batch = make_batch(query_lens=np.array([5, 17, 1]), seq_lens=np.array([5, 32, 100], np.int16))
    batch.check(LIMITS)
    assert batch.positions.tolist() == make_batch().positions.tolist()


@pytest.mark.parametrize("garbage", [0, -1, 20, np.iinfo(np.int32).max, np.iinfo(np.int32).min])
def test_behind_a_requests_blocks_anything_may_stand(garbage):
    table = make_batch().block_table.copy()
    table[table == -9] = garbage
    make_batch(block_table=table).check(LIMITS)


def block_of(request, column, block):
    table = make_batch().block_table.copy()
    table[request, column] = block
    return {"block_table": table}


def test_requests_may_share_blocks_that_they_only_read():
    table = make_batch().block_table.copy()
    table[2, 0] = table[1, 0]
    make_batch(block_table=table).check(LIMITS)


REFUSED = {
    "request 1 has block 0 in column 0: blocks of requests are 1 to 19, block 0": block_of(1, 0, 0),
    "request 1 has block 20 in column 1": block_of(1, 1, 20),
    "request 2 has block -1 in column 6": block_of(2, 6, -1),
    "request 2 has 101 tokens: max_model_len is 100": {"seq_lens": numbers(5, 32, 101)},
    r"request 1 has 17 tokens in this step and 16 in all \(seq_lens\)": {
        "seq_lens": numbers(5, 16, 100)
    },
    "request 2 has 100 tokens and none in this step: leave it out, or make its length 0": {
        "query_lens": numbers(5, 17, 0),
        "token_ids": np.arange(22),
    },
    "request 1 has no tokens and comes before request 2, which has 1": {
        "query_lens": numbers(5, 0, 1),
        "seq_lens": numbers(5, 0, 100),
        "token_ids": np.arange(6),
    },
    "request 1 has -1 tokens in this step": {
        "query_lens": numbers(5, -1, 1),
        "token_ids": np.arange(5),
    },
    "65 tokens in a step: max_num_batched_tokens is 64": {
        "query_lens": numbers(5, 17, 43),
        "token_ids": np.arange(65),
    },
    "22 token ids for query_lens that sum to 23": {"token_ids": np.arange(22)},
    "request 2 has 100 tokens and 6 blocks of 16": {"block_table": np.ones((3, 6), np.int32)},
    "a block table of 8 columns: max_model_len 100 needs 7": {
        "block_table": np.ones((3, 8), np.int32)
    },
    r"seq_lens is int32 \[2\]: make it signed integers \[3\]": {"seq_lens": numbers(5, 32)},
    r"block_table is int32 \[2, 7\]: make it signed integers \[3, blocks\]": {
        "block_table": np.ones((2, 7), np.int32)
    },
    r"block_table is int32 \[3\]": {"block_table": numbers(1, 2, 3)},
    r"token_ids is float64 \[23\]": {"token_ids": np.arange(23.0)},
    r"query_lens is uint32 \[3\]": {"query_lens": np.array([5, 17, 1], np.uint32)},
    r"query_lens is int32 \[3, 1\]": {"query_lens": numbers(5, 17, 1)[:, None]},
    "request 0 writes its token 3, and request 2 its token 99, to the same place of block 7: give "
    "one of them a block of its own": block_of(2, 6, 7),
    "request 1 writes its token 15, and request 1 its token 31, to the same place of block 3": (
        block_of(1, 0, 3)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_is_refused(message):
    with pytest.raises(ValueError, match=message):
        make_batch(**REFUSED[message]).check(LIMITS)


def test_more_requests_than_a_step_has_are_refused():
    ones = np.ones(5, np.int32)
    batch = ScheduledBatch(ones, ones, ones, ones[:, None])
    with pytest.raises(ValueError, match="5 requests in a step: max_num_seqs is 4"):
        batch.check(LIMITS)


@pytest.mark.parametrize("token", [-1, 23])
def test_tokens_are_looked_at_where_a_vocabulary_is_known(token):
    make_batch().check(LIMITS, vocab_size=23)
    token_ids = np.arange(23)
    token_ids[4] = token
    batch = make_batch(token_ids=token_ids)
    batch.check(LIMITS)
    with pytest.raises(ValueError, match=f"token 4 of the step has id {token}: .* 0 to 22"):
        batch.check(LIMITS, vocab_size=23)
