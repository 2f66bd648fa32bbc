"""Tests of the kata `bad_words`."""

import numpy as np
import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    DeviceTraffic,
    Diagnosis,
    KataFailure,
    Step,
    expect,
    expect_equal,
    expect_refusal,
    in_a_row,
    left_as_they_were,
    part_of,
    same_objects,
)

ROWS, VOCAB = 16, 1024
MINUS_INFINITY = float("-inf")
WHEN = (
    "A sequence forbids its last id when the ids before it are the newest of the row, all of them "
    "and in their order. Nothing comes before a single id, so it is always forbidden. (In Python, "
    "`past[-0:]` is all of `past`, and not its empty end.)"
)
NO_ROW = (
    "A row that the logits lack belongs to no request, even if it has no bad words: the caller has "
    "mixed up two steps. The check that was there reads all rows: keep it in front."
)
REFUSED = (
    "An id that the vocabulary lacks is a mistake of the caller. As an index, -1 is the last id, "
    "and the slice `[-1:0]` is empty: without a check the word is lost without a trace, or another "
    "id is forbidden. The host has all ids at hand: check them there, before anything changes, "
    "also those of words that don't match now."
)
WAITS = (
    "`logits[row, id] = number` sends the number to the device by a pageable copy, and waits for "
    "it. A list as an index is sent and waited for as well, and so is a number that is written "
    "through indices on the device. A slice that is filled needs no upload at all: "
    "`logits[row, id : id + 1] = number`."
)
TOGETHER = (
    "All matches are known before the first is written. Either nothing is uploaded, or all rows "
    "and ids share one pinned tensor, which is cut apart on the device."
)
SMALL = (
    "A mask has a value for every logit: rows times vocabulary. With 256 requests and 150,000 ids "
    "these are 38 MB a step, most of them zeros. A match is a row and an id."
)
WHOLE = (
    "A mask has a value for every logit, also one that is made on the device: 38 million of them, "
    "written by one kernel and read by another, for a few that change. Write only the few."
)
NOTHING = "In most steps no bad word is about to be completed. They need no upload and no kernel."
PART = (
    "Logits may be a part of a larger tensor, as where ids are padded to a round number. Then "
    "`reshape` is a copy, and a write to the copy never reaches them; and an index that is "
    "computed as row times vocabulary hits another place. Index rows and ids apart."
)
HALF = (
    "A model may compute in half precision. A number takes the dtype of what it is written to; a "
    "tensor of minus infinity has one of its own: make it `dtype=logits.dtype`."
)
NAN = (
    "Minus infinity was added to the logits, or multiplied by a mask: infinity minus infinity and "
    "zero times infinity are NaN. Logits may be infinite, so write minus infinity over them "
    "instead."
)
STALE = (
    "Did you keep something of an earlier step? Rows say more in every step, and the engine "
    "appends to the same lists."
)
REUSED = (
    "A queued copy reads its buffer when its turn comes. Pinned memory that a later call writes "
    "to again may bring the matches of the wrong call. Take fresh pinned memory in each."
)


def logits_on(accelerator, rows=ROWS, vocab=VOCAB):
    return torch.zeros(rows, vocab, device=accelerator.device)


def because(otherwise):
    """Returns a function that finds the likely cause of wrong logits: NaN has its own."""
    return lambda logits, right: NAN if bool(logits.isnan().any()) else otherwise


def with_forbidden(places, rows=ROWS, vocab=VOCAB):
    right = torch.zeros(rows, vocab)
    for row, token_id in places:
        right[row, token_id] = MINUS_INFINITY
    return right


@pytest.mark.parametrize(
    ("word", "past", "forbids"),
    [
        ([3], [], True),
        ([3], [1, 2], True),
        ([1, 3], [], False),
        ([1, 3], [1], True),
        ([1, 3], [2, 1], True),
        ([1, 3], [1, 2], False),
        ([1, 2, 3], [1, 2], True),
        ([1, 2, 3], [0, 1, 2], True),
        ([1, 2, 3], [2], False),
        ([1, 2, 3], [0, 2], False),
    ],
)
def test_a_word_forbids_its_last_id_behind_the_others(kata, accelerator, word, past, forbids):
    logits = logits_on(accelerator, rows=1, vocab=4)
    kata.apply_bad_words(logits, {0: [word]}, [past])
    expect_equal(
        logits,
        with_forbidden([(0, 3)] if forbids else [], rows=1, vocab=4),
        value=f"the logits after apply_bad_words(zeros, {{0: [{word}]}}, [{past}])",
        likely=because(WHEN),
    )


def test_each_row_has_words_of_its_own(kata, accelerator):
    logits = logits_on(accelerator, rows=3, vocab=6)
    words = {2: [[1, 5], [3, 1, 4], [3, 2]], 0: [[1, 0]], 1: []}
    kata.apply_bad_words(logits, words, [[1], [1], [3, 1]])
    expect_equal(
        logits,
        with_forbidden([(0, 0), (2, 4), (2, 5)], rows=3, vocab=6),
        value=f"the logits after apply_bad_words(zeros, {words}, [[1], [1], [3, 1]])",
        likely=because("The key of a list of words is the row that they are for."),
    )


@pytest.mark.parametrize("matches", [1, ROWS])
def test_logits_may_be_a_part_of_a_larger_tensor(kata, accelerator, matches):
    logits, whole = part_of(torch.zeros(ROWS, 64), accelerator.device)
    right = whole.clone()
    places = [(row, 3 * row) for row in range(matches)]
    right[:, 1:65] = with_forbidden(places, vocab=64).to(accelerator.device)
    words, pasts = {row: [[token_id]] for row, token_id in places}, [[]] * ROWS
    with left_as_they_were(words=words, pasts=pasts):
        kata.apply_bad_words(logits, words, pasts)
    count = "1 match" if matches == 1 else f"{matches} matches"
    value = f"the [16, 67] tensor whose columns 1 to 64 are the logits, with {count},"
    expect_equal(whole, right.cpu(), value=value, likely=because(PART))


def test_lists_that_changed_have_other_matches(kata, accelerator):
    words = {0: [[1, 3]], 1: [[2, 0]]}
    for past, places in same_objects([([[1], [1]], [(0, 3)]), ([[1, 4], [1, 2]], [(1, 0)])]):
        logits = logits_on(accelerator, rows=2, vocab=6)
        kata.apply_bad_words(logits, words, past)
        right = with_forbidden(places, rows=2, vocab=6)
        value = f"the logits after apply_bad_words(zeros, {words}, {past}), changed in place,"
        expect_equal(logits, right, value=value, likely=because(STALE))


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        ({0: [[1]], 1: [[-1]]}, -1),
        ({0: [[1]], 1: [[6]]}, 6),
        ({0: [[1]], 1: [[4, 6]]}, 6),
        ({0: [[1]], 1: [[-7, 4]]}, -7),
    ],
)
def test_an_id_that_the_vocabulary_lacks_is_refused(kata, accelerator, words, unknown):
    logits = logits_on(accelerator, rows=2, vocab=6)
    expect_refusal(
        lambda: kata.apply_bad_words(logits, words, [[], []]),
        f"apply_bad_words(zeros(2, 6), {words}, ...), with the id {unknown}",
        why=REFUSED,
        logits=logits,
    )


@pytest.mark.parametrize("words", [{0: [[1]], 2: [[1]]}, {-1: [[1]]}, {0: [[1]], 9: []}], ids=str)
def test_a_row_that_the_logits_lack_is_refused(kata, accelerator, words):
    logits = logits_on(accelerator, rows=2, vocab=6)
    call = f"apply_bad_words(zeros(2, 6), {words}, [[], []])"
    expect_refusal(
        lambda: kata.apply_bad_words(logits, words, [[], []]), call, why=NO_ROW, logits=logits
    )


def test_what_was_refused_is_refused(kata, accelerator):
    logits = logits_on(accelerator, rows=2, vocab=6)
    expect_refusal(
        lambda: kata.apply_bad_words(logits, {0: [[1]]}, [[]]),
        "past tokens of 1 row for logits of 2",
        why=REFUSED,
        logits=logits,
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("matches", [1, ROWS])
def test_logits_of_half_precision_are_logits_too(kata, accelerator, dtype, matches):
    logits = logits_on(accelerator).to(dtype)
    logits[0].fill_(float("inf"))
    words = {row: [[row]] for row in range(matches)}
    kata.apply_bad_words(logits, words, [[]] * ROWS)
    right = with_forbidden([(row, row) for row in range(matches)]).to(dtype)
    right[0, 1:] = float("inf")
    count = "1 match" if matches == 1 else f"{matches} matches"
    value = f"the logits, {dtype} and infinite in row 0, with {count}"
    expect_equal(logits, right, value=value, likely=because(HALF))


def record_matches(kata, accelerator):
    """Records a call with a match in each of 16 rows, queued after a kernel of 50 microseconds."""
    words = {row: [[7, 8, row], [9, 8, 1000]] for row in range(ROWS)}
    pasts = [[6, 7, 8]] * ROWS
    kata.apply_bad_words(logits_on(accelerator), words, pasts)
    logits = logits_on(accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.apply_bad_words(logits, words, pasts)
    expect_equal(
        logits,
        with_forbidden([(row, row) for row in range(ROWS)]),
        value=f"the logits, with a match in each of {ROWS} rows",
        likely=because(WHEN),
    )
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    return timeline, uploads


def test_nobody_waits(kata, accelerator):
    timeline, _ = record_matches(kata, accelerator)
    expect(timeline).counts(host_syncs=0, why=WAITS)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pageable=0, why=WAITS)


def test_all_matches_share_one_upload_or_need_none(kata, accelerator):
    timeline, uploads = record_matches(kata, accelerator)
    expect(timeline).that(
        len(uploads) <= 1,
        expected=f"at most 1 upload for {ROWS} matches",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=TOGETHER,
    )


def test_what_travels_is_the_matches_alone(kata, accelerator):
    timeline, _ = record_matches(kata, accelerator)
    expect(timeline).sends_at_most(64 * ROWS, why=SMALL)


def test_an_id_may_be_a_large_number(kata, accelerator):
    vocab, ids = 70_000, [69_999, 40_000, 300, 65_536, 32_768]
    logits = logits_on(accelerator, rows=1, vocab=vocab)
    kata.apply_bad_words(logits, {0: [[token_id] for token_id in ids]}, [[]])
    right = with_forbidden([(0, token_id) for token_id in ids], rows=1, vocab=vocab)
    expect_equal(
        logits, right, value=f"the logits of 70,000 ids, with the words {ids}", likely=because("")
    )


def test_few_matches_do_not_write_all_logits(kata, accelerator):
    words = {row: [[row]] for row in range(ROWS)}
    kata.apply_bad_words(logits_on(accelerator), words, [[]] * ROWS)
    logits = logits_on(accelerator)
    with DeviceTraffic() as traffic:
        kata.apply_bad_words(logits, words, [[]] * ROWS)
    if traffic.nbytes > ROWS * VOCAB // 2:
        expected = f"{ROWS} of {ROWS * VOCAB:,} logits to be written"
        did = f"wrote {traffic.nbytes:,} bytes: the logits have {logits.nbytes:,}"
        raise KataFailure(Diagnosis(expected, did, traffic.largest(), why=WHOLE))


def test_without_a_match_the_device_is_left_alone(kata, accelerator):
    logits = logits_on(accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        kata.apply_bad_words(logits, {0: [[1, 2, 3]], 5: []}, [[1]] * ROWS)
    expect(timeline).that(
        not timeline.events,
        expected="a step in which no word matches to leave the device alone",
        did="gives the device something to do",
        events=[event for event in timeline.events if event.on_device],
        why=NOTHING,
    )


def test_calls_that_follow_at_once_do_not_disturb_each_other(kata, accelerator):
    """Each call has 8 matches, too many to be written one by one."""

    def call(number):
        logits = torch.zeros(8, 256, device=accelerator.device)
        kata.apply_bad_words(logits, {row: [[number + row]] for row in range(8)}, [[]] * 8)
        return logits

    several, timeline = in_a_row(accelerator, call)
    expect(timeline).no_hazards(why=REUSED)
    for number, logits in enumerate(several):
        places = [(row, number + row) for row in range(8)]
        value = f"the logits of call {number}, of {len(several)} queued while a kernel still ran,"
        right = with_forbidden(places, rows=8, vocab=256)
        expect_equal(logits, right, value=value, likely=because(REUSED))


def common_steps(accelerator):
    def step(name, words, pasts, places, vocab=VOCAB, dtype=torch.float32):
        logits = torch.zeros(len(pasts), vocab, dtype=dtype, device=accelerator.device)
        right = with_forbidden(places, len(pasts), vocab).to(dtype)
        return Step(f"apply_bad_words of {name}", (logits, words, pasts), right)

    many = {row: [[row], [row, row + 1]] for row in range(6)}
    return [
        step(
            "6 rows",
            many,
            [[row] for row in range(6)],
            [(r, r + i) for r in range(6) for i in (0, 1)],
        ),
        step(
            "6 rows of other words",
            {row: [[row + 2], [row, row + 3]] for row in range(6)},
            [[row] for row in range(6)],
            [(r, r + i) for r in range(6) for i in (2, 3)],
        ),
        step("a word twice", {0: [[1, 3], [1, 3], [2], [2]]}, [[1]], [(0, 3), (0, 2)]),
        step("tuples after a list", {0: ((1, 3), (2,))}, [[0, 1], []], [(0, 3), (0, 2)]),
        step("lists after a tuple", {1: [[1, 3], [2, 2]]}, ((), (2, 1)), [(1, 3)]),
        step("tuples", {0: ((1, 3), (2,))}, ((0, 1), ()), [(0, 3), (0, 2)]),
        step("no words", {}, [[1], [2]], []),
        step("arrays", {1: [np.array([4, 5])]}, [np.array([4]), np.array([3, 4])], [(1, 5)]),
        step("1 row of 200,000 ids", {0: [[7, 150_000]]}, [[7]], [(0, 150_000)], 200_000),
        step("halves", {0: [[1]]}, [[]], [(0, 1)], 16, torch.bfloat16),
        step("a word that does not match", {0: [[1, 2]]}, [[2]], []),
        step("no rows", {}, [], []),
    ]


def forbidding(kata, accelerator):
    def run(logits, words, pasts):
        kata.apply_bad_words(logits, words, pasts)
        return logits

    return run


COMMON = Common(
    make=forbidding,
    steps=common_steps,
    sized=lambda accelerator, n: Step(
        "", (logits_on(accelerator), {0: [[1, token] for token in range(n)]}, [[1]] * ROWS), None
    ),
    sizes=(16, 512),
    changes=(0,),
    likely=because(""),
    stale=STALE,
)
