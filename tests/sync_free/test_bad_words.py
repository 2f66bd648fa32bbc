"""apply_bad_words, after and before the change."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import debubble
from solutions.sync_free.before import bad_words as before
from solutions.sync_free.sites import bad_words
from tests.common import claims
from tests.common.refusals import expect_refused

BOTH = pytest.mark.parametrize("module", [bad_words, before], ids=["ours", "before"])
VOCAB = 5
MINUS_INFINITY = float("-inf")

ids = st.integers(0, VOCAB - 1)
sequences = st.lists(ids, min_size=1, max_size=4)


@st.composite
def batches(draw):
    """Draws (bad words by row, past tokens of each row) for up to 4 rows. Some bad words begin with
    a row's last tokens."""
    pasts = draw(st.lists(st.lists(ids, max_size=5), min_size=1, max_size=4))
    words = {}
    for row in draw(st.lists(st.integers(0, len(pasts) - 1), unique=True)):
        said = st.integers(0, len(pasts[row])).map(lambda n, row=row: pasts[row][n:])
        completing = st.tuples(said, ids).map(lambda pair: [*pair[0], pair[1]])
        words[row] = draw(st.lists(sequences | completing, max_size=4))
    return words, pasts


def some_logits(accelerator, num_rows, vocab_size=VOCAB, dtype=torch.float32):
    numbers = torch.arange(num_rows * vocab_size, dtype=dtype) / 8
    return numbers.view(num_rows, vocab_size).to(accelerator.device)


def expected(logits, words, pasts):
    """Returns the expected logits: -inf for every id of every row that completes a bad word, found
    by trying all ids."""
    logits = logits.copy()
    for row, past in enumerate(pasts):
        for token_id in range(logits.shape[1]):
            said = [*past, token_id]
            for word in words.get(row, []):
                if len(said) >= len(word) and said[len(said) - len(word) :] == list(word):
                    logits[row, token_id] = -np.inf
    return logits


def expect_forbidden(accelerator, module, words, pasts):
    logits = some_logits(accelerator, len(pasts))
    right = expected(logits.cpu().numpy(), words, pasts)
    module.apply_bad_words(logits, words, pasts)
    np.testing.assert_array_equal(logits.cpu().numpy(), right)


@BOTH
@given(batch=batches())
def test_the_logits_are_those_of_the_oracle(accelerator, module, batch):
    expect_forbidden(accelerator, module, *batch)


@BOTH
@pytest.mark.parametrize(
    ("word", "past", "is_forbidden"),
    [
        ([3], [], True),
        ([3], [1, 2], True),
        ([1, 3], [], False),
        ([1, 3], [1], True),
        ([1, 3], [1, 2], False),
        ([1, 2, 3], [2], False),
        ([1, 2, 3], [1, 2], True),
        ([1, 2, 3], [0, 2], False),
        ([1, 2, 3], [3, 1, 2], True),
        ([1, 1, 3], [1], False),
        ([3, 3, 3], [3, 3, 3], True),
    ],
)
def test_a_sequence_forbids_its_last_id_behind_all_the_others(
    accelerator, module, word, past, is_forbidden
):
    logits = some_logits(accelerator, 1)
    module.apply_bad_words(logits, {0: [word]}, [past])
    forbidden = (logits == MINUS_INFINITY).nonzero().tolist()
    assert forbidden == ([[0, 3]] if is_forbidden else [])


@BOTH
def test_tuples_and_arrays_do_as_well_as_lists(accelerator, module):
    logits = some_logits(accelerator, 2)
    pasts = [(0, 1, 2), np.array([4, 1, 2])]
    module.apply_bad_words(logits, {0: ((1, 2, 3),), 1: [np.array([1, 2, 3]), (4,)]}, pasts)
    assert (logits == MINUS_INFINITY).nonzero().tolist() == [[0, 3], [1, 3], [1, 4]]


FEW_AND_MANY = pytest.mark.parametrize(
    "matches", [bad_words.FEW, bad_words.FEW + 1], ids=["few", "many"]
)
"""The largest number of matches that are written one by one, and the smallest number that is
scattered after one upload."""


def words_that_match(rows, vocab_size, matches):
    """Returns ({row: bad words of one id}, their sorted (row, id)): `matches` bad words in all,
    spread over these rows."""
    places = [(rows[n % len(rows)], vocab_size - 1 - n // len(rows)) for n in range(matches)]
    words = {row: [[token] for of_row, token in places if of_row == row] for row in rows}
    return words, sorted(places)


@FEW_AND_MANY
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_logits_may_be_of_any_float_type(accelerator, dtype, matches):
    logits = some_logits(accelerator, 2, dtype=dtype)
    words, places = words_that_match([1, 0], VOCAB, matches)
    bad_words.apply_bad_words(logits, words, [[], []])
    assert logits.dtype == dtype
    assert list(map(tuple, (logits == MINUS_INFINITY).nonzero().tolist())) == places


@FEW_AND_MANY
@pytest.mark.parametrize(
    "view", [lambda t: t[:, 1:4], lambda t: t[::2], lambda t: t.t()], ids=["columns", "rows", "t"]
)
def test_logits_may_lie_apart(accelerator, view, matches):
    whole = some_logits(accelerator, VOCAB)
    logits, untouched = view(whole), whole.clone()
    words, _ = words_that_match([0, 2], logits.shape[1], matches)
    right = expected(logits.cpu().numpy(), words, [[]] * len(logits))
    bad_words.apply_bad_words(logits, words, [[]] * len(logits))
    np.testing.assert_array_equal(logits.cpu().numpy(), right)
    assert int((whole != untouched).sum()) == matches


@pytest.mark.gpu
@pytest.mark.gpu_memory(5)
@FEW_AND_MANY
def test_offsets_beyond_32_bits_are_written_and_nothing_else(accelerator, matches):
    vocab_size = 1 << 17
    num_rows = (1 << 31) // vocab_size + 2
    logits = torch.zeros(num_rows, vocab_size, dtype=torch.bfloat16, device=accelerator.device)
    words, places = words_that_match([num_rows - 1, num_rows - 2], vocab_size, matches)
    bad_words.apply_bad_words(logits, words, [[]] * num_rows)
    assert [logits[place].item() for place in places] == [MINUS_INFINITY] * matches
    assert sum(int(torch.isinf(rows).sum()) for rows in logits.split(64)) == matches


def large_batch(num_rows=4096, vocab_size=512):
    """Returns (two bad words for each of 4096 requests, past tokens, vocabulary size). Every fourth
    request is about to complete one."""
    random = np.random.default_rng(9)
    pasts = random.integers(0, vocab_size, (num_rows, 20)).tolist()
    words = {}
    for row, past in enumerate(pasts):
        new = random.integers(0, vocab_size, 3).tolist()
        words[row] = [new, [*past[-2:], new[0]] if row % 4 == 0 else new[:2]]
    return words, pasts, vocab_size


ONE, LARGE = ({0: [[1]]}, [[]], VOCAB), large_batch()
ONE_AND_LARGE = pytest.mark.parametrize("batch", [ONE, LARGE], ids=["one", "4k"])


def call_of(accelerator, batch):
    words, pasts, vocab_size = batch
    logits = torch.zeros(len(pasts), vocab_size, device=accelerator.device)
    return lambda: bad_words.apply_bad_words(logits, words, pasts)


def test_4096_requests(accelerator):
    words, pasts, vocab_size = LARGE
    right = np.zeros((len(pasts), vocab_size), np.float32)
    for row, of_row in words.items():
        for word in of_row:
            if pasts[row][-len(word) + 1 :] == word[:-1]:
                right[row, word[-1]] = -np.inf
    assert np.isinf(right).sum() >= 1024
    logits = torch.zeros(right.shape, device=accelerator.device)
    bad_words.apply_bad_words(logits, words, pasts)
    np.testing.assert_array_equal(logits.cpu().numpy(), right)


def test_a_few_matches_are_a_kernel_each_and_no_upload(accelerator):
    for matches in range(1, bad_words.FEW + 1):
        call = call_of(accelerator, ({0: [[n] for n in range(matches)]}, [[]], VOCAB))
        assert claims.expect_no_wait(accelerator, call, 0)["kernels"] == matches


MANY = ({0: [[n] for n in range(bad_words.FEW + 1)]}, [[]], VOCAB)


@pytest.mark.parametrize("batch", [MANY, LARGE], ids=["many", "4k"])
def test_many_matches_share_one_upload_and_one_kernel(accelerator, batch):
    call = call_of(accelerator, batch)
    assert claims.expect_no_wait(accelerator, call, 1)["kernels"] == 1


def test_as_it_was_it_waited_for_every_match(accelerator):
    logits = some_logits(accelerator, 3)
    words = {0: [[1], [2], [4, 3]], 2: [[1]]}
    call = lambda: before.apply_bad_words(logits, words, [[], [], []])
    counts = claims.counts_of(accelerator, call)
    assert counts["host_syncs"] == counts["h2d_pageable"] == 3


@pytest.mark.parametrize("words", [{}, {0: []}, {1: [[2, 3], [4, 4, 4]]}])
def test_without_a_match_the_device_is_left_alone(accelerator, words):
    logits = some_logits(accelerator, 2)
    with debubble.record(accelerator) as timeline:
        bad_words.apply_bad_words(logits, words, [[2], [4, 4, 3]])
    assert timeline.events == []


@pytest.mark.gpu
@ONE_AND_LARGE
def test_the_host_returns_while_the_device_is_busy(accelerator, batch):
    claims.expect_host_returns(accelerator, call_of(accelerator, batch))


def test_overlapped_calls_are_all_right(accelerator):
    random = np.random.default_rng(4)
    batches = []
    for _ in range(claims.OVERLAPPED_CALLS):
        sequences = (random.integers(1, 3), 1)
        words = {row: random.integers(0, VOCAB, sequences).tolist() for row in range(3)}
        batches.append((words, [[]] * 3))
    fresh = some_logits(accelerator, 3)

    def call(batch):
        logits = fresh.clone()
        bad_words.apply_bad_words(logits, *batch)
        return logits

    for logits, batch in zip(claims.overlapped(accelerator, call, batches), batches, strict=True):
        right = expected(fresh.cpu().numpy(), *batch)
        np.testing.assert_array_equal(logits.cpu().numpy(), right)


@BOTH
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({3: [[1]]}, "row 3: the logits have 3 rows"),
        ({-1: [[1]]}, "row -1: the logits have 3 rows"),
        ({0: [[1]], 1: [[-1]]}, "token id -1 in a bad word for row 1"),
        ({0: [[1]], 1: [[VOCAB]]}, "token id 5 in a bad word for row 1: the vocabulary has 5 ids"),
        ({0: [[1]], 1: [[4, 4, 1 << 40]]}, "token id 1099511627776"),
        ({0: [[1]], 1: [[-7, 4, 1]]}, "token id -7"),
        ({0: [[1]], 2: [[1], []]}, "an empty bad word for row 2"),
        pytest.param({0: [[3]], 1: [[2.7]]}, "token id 2.7 in a bad word for row 1", id="fraction"),
        pytest.param({0: [[3]], 1: [[1.0, 3]]}, "token id 1.0 in a bad word", id="float before"),
        pytest.param({0: [[float("nan")]]}, "token id nan in a bad word", id="nan"),
        pytest.param({0: [[True]]}, "token id True in a bad word for row 0", id="truth"),
        pytest.param({0: ["12"]}, "a bad word of row 0 is '12': give a list", id="word"),
        pytest.param({True: [[3]]}, "bad words for row True", id="mask"),
        pytest.param({0.5: [[3]]}, "bad words for row 0.5", id="half a row"),
    ],
)
def test_bad_input_is_refused_and_named(accelerator, module, words, message):
    logits = some_logits(accelerator, 3)
    call = lambda: module.apply_bad_words(logits, words, [[], [], []])
    expect_refused(accelerator, call, message, unchanged=(logits,))


@BOTH
def test_ids_on_the_device_are_refused(accelerator, module):
    ids = torch.ones(2, dtype=torch.int64, device=accelerator.device)
    logits = some_logits(accelerator, 1)
    call = lambda: module.apply_bad_words(logits, {0: [ids]}, [[]])
    with pytest.raises(ValueError, match=r"row 0 is a torch\.int64 tensor"):
        call()


@BOTH
def test_pasts_on_the_device_are_refused(accelerator, module):
    past = torch.ones(2, dtype=torch.int64, device=accelerator.device)
    logits = some_logits(accelerator, 2)
    call = lambda: module.apply_bad_words(logits, {1: [[1, 2]]}, [[], past])
    expect_refused(accelerator, call, "past tokens of row 1 are on", unchanged=(logits,))


def test_pasts_for_other_rows_are_refused(accelerator):
    logits = some_logits(accelerator, 3)
    call = lambda: bad_words.apply_bad_words(logits, {0: [[1]]}, [[], []])
    expect_refused(accelerator, call, "past tokens of 2 rows for logits of 3", unchanged=(logits,))
