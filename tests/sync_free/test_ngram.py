"""update_ngram_gpu_tensors_incremental, after and before the change."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import debubble
from solutions.sync_free.before import ngram as before
from solutions.sync_free.kernels.ngram import SCATTER_BLOCK, scatter_rows_kernel
from solutions.sync_free.model.ngram_batch import NgramBatch
from solutions.sync_free.sites import ngram
from tests.common import claims
from tests.common.refusals import expect_refused

BOTH = pytest.mark.parametrize("module", [ngram, before], ids=["ours", "before"])
MAX_REQS, MAX_LEN = 6, 8


@dataclass(frozen=True)
class Step:
    """The inputs of one update of the n-gram tables: the host's batch, and the device's tables
    before the update."""

    batch: NgramBatch
    previous: dict[str, int] | None
    new: frozenset[str]
    token_ids: np.ndarray
    num_tokens: np.ndarray

    def run(self, module, accelerator):
        """Runs the update of `module`, and returns the two tables after it and the map of rows that
        it returns."""
        tables = self.tables(accelerator)
        return *tables, self.update(module, tables)

    def update(self, module, tables):
        return module.update_ngram_gpu_tensors_incremental(
            self.batch, *tables, self.previous, self.new
        )

    def tables(self, accelerator):
        return tuple(
            torch.from_numpy(array).to(accelerator.device)
            for array in (self.token_ids, self.num_tokens)
        )

    def expected(self):
        """Returns the expected tables, made request by request from unchanged copies."""
        token_ids, num_tokens = self.token_ids.copy(), self.num_tokens.copy()
        for row, req_id in enumerate(self.batch.req_ids):
            length = self.batch.num_tokens_cpu[row]
            num_tokens[row] = length
            if self.previous is None or req_id in self.new:
                token_ids[row, :length] = self.batch.token_ids_cpu[row, :length]
            else:
                token_ids[row] = self.token_ids[self.previous[req_id]]
        return token_ids, num_tokens


def make_step(req_ids, lengths, previous, new=(), max_reqs=MAX_REQS, max_len=MAX_LEN):
    """Returns a Step in whose tables all numbers differ, so that each can be told apart: the
    device's are negative, the host's are not."""
    on_host = np.arange(max_reqs * max_len, dtype=np.int32).reshape(max_reqs, max_len)
    return Step(
        batch=NgramBatch(req_ids, on_host, np.array(lengths, np.int32)),
        previous=previous,
        new=frozenset(new),
        token_ids=-1 - on_host,
        num_tokens=-1 - np.arange(max_reqs, dtype=np.int32),
    )


@st.composite
def steps(draw):
    """Draws a Step in which some requests of the last step have moved to any rows, and others are
    new or resumed."""
    rows_then = draw(st.permutations(range(MAX_REQS)))
    num_then = draw(st.integers(0, MAX_REQS))
    previous = {f"old {i}": rows_then[i] for i in range(num_then)}
    names = [*previous, *(f"new {i}" for i in range(MAX_REQS))]
    req_ids = draw(st.lists(st.sampled_from(names), max_size=MAX_REQS, unique=True))
    resumed = draw(st.sets(st.sampled_from([*previous, "elsewhere"])))
    lengths = draw(st.lists(st.integers(0, MAX_LEN), min_size=len(req_ids), max_size=len(req_ids)))
    new = resumed | {name for name in req_ids if name not in previous}
    return make_step(req_ids, lengths, draw(st.sampled_from([None, previous])), new)


def expect_as_expected(step, token_ids, num_tokens):
    for table, right in zip((token_ids, num_tokens), step.expected(), strict=True):
        np.testing.assert_array_equal(table.cpu().numpy(), right)


@BOTH
@given(step=steps())
def test_the_tables_are_those_of_the_oracle(accelerator, module, step):
    token_ids, num_tokens, rows = step.run(module, accelerator)
    expect_as_expected(step, token_ids, num_tokens)
    in_order = {req_id: row for row, req_id in enumerate(step.batch.req_ids)}
    assert rows == (in_order or step.previous)


def large_step():
    """Returns a Step of 4096 requests: a tenth is new, and the others have changed their rows."""
    random = np.random.default_rng(5)
    names = [f"request {i}" for i in range(4096)]
    rows_then = random.permutation(4096).tolist()
    return make_step(
        names,
        random.integers(0, 33, 4096),
        dict(zip(names[410:], rows_then, strict=False)),
        names[:410],
        max_reqs=4096,
        max_len=32,
    )


LARGE = large_step()
SWAPPED = make_step(["b", "a"], [3, 2], {"a": 0, "b": 1})
PASSED_ROUND = make_step(["c", "a", "b", "d"], [3, 2, 8, 1], {"a": 0, "b": 1, "c": 2}, {"d"})


@BOTH
@pytest.mark.parametrize("step", [SWAPPED, PASSED_ROUND, LARGE], ids=["swap", "cycle", "4k"])
def test_requests_that_change_places_take_their_rows_along(accelerator, module, step):
    expect_as_expected(step, *step.run(module, accelerator)[:2])


def test_a_new_request_may_be_written_to_where_another_one_lay(accelerator):
    step = make_step(["new", "old"], [5, 3], {"old": 0}, {"new"})
    token_ids, num_tokens, _ = step.run(ngram, accelerator)
    assert token_ids[0].tolist() == [0, 1, 2, 3, 4, -6, -7, -8]
    assert token_ids[1].tolist() == [-1, -2, -3, -4, -5, -6, -7, -8]
    assert num_tokens[:3].tolist() == [5, 3, -3]


def test_a_resumed_request_comes_from_the_host_though_the_device_had_it(accelerator):
    step = make_step(["other", "resumed"], [1, 8], {"resumed": 0, "other": 1}, {"resumed"})
    token_ids, _, _ = step.run(ngram, accelerator)
    assert token_ids[1].tolist() == list(range(8, 16))


@BOTH
def test_a_row_without_tokens_writes_none_and_hides_no_other(accelerator, module):
    step = make_step(list("abcdef"), [0, 2, 0, 0, 8, 0], None)
    expect_as_expected(step, *step.run(module, accelerator)[:2])


@BOTH
@pytest.mark.parametrize("previous", [None, {}, {"a": 3}])
def test_an_empty_batch_touches_nothing(accelerator, module, previous):
    step = make_step([], [], previous, {"a"})
    tables = step.tables(accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        assert step.update(module, tables) == previous
    assert timeline.events == []


def test_one_step_follows_the_other(accelerator):
    """Forty updates, one after another, keep every request's tokens. The device appends sampled
    tokens, so the host's copy of a running request is stale."""
    random = np.random.default_rng(11)
    device = accelerator.device
    token_ids = torch.zeros(MAX_REQS, MAX_LEN, dtype=torch.int32, device=device)
    num_tokens = torch.zeros(MAX_REQS, dtype=torch.int32, device=device)
    held, rows = {}, None
    for step in range(40):
        for req_id in random.permutation(list(held))[:1].tolist():
            del held[req_id]
        new = {}
        while len(held) + len(new) < random.integers(1, MAX_REQS + 1):
            new[f"{step}.{len(new)}"] = random.integers(0, 99, random.integers(0, 4)).tolist()
        held |= new
        req_ids = random.permutation(list(held)).tolist()
        on_host = np.full((MAX_REQS, MAX_LEN), -9, np.int32)
        for row, req_id in enumerate(req_ids):
            if req_id in new:
                on_host[row, : len(new[req_id])] = new[req_id]
        lengths = np.array([len(held[req_id]) for req_id in req_ids], np.int32)
        batch = NgramBatch(req_ids, on_host, lengths)
        rows = ngram.update_ngram_gpu_tensors_incremental(
            batch, token_ids, num_tokens, rows, set(new)
        )
        assert num_tokens[: len(req_ids)].tolist() == lengths.tolist()
        for req_id, row in rows.items():
            assert token_ids[row, : len(held[req_id])].tolist() == held[req_id]
            if len(held[req_id]) < MAX_LEN:
                token_ids[row, len(held[req_id])] = step
                held[req_id].append(step)


@pytest.mark.parametrize("step", [PASSED_ROUND, LARGE], ids=["small", "4k"])
def test_one_upload_and_a_handful_of_launches_however_many_requests(accelerator, step):
    tables = step.tables(accelerator)
    counts = claims.expect_no_wait(accelerator, lambda: step.update(ngram, tables))
    assert (counts["kernels"], counts["d2d"]) == (3, 1)


def test_as_it_was_it_waited_for_each_part_and_for_each_new_request(accelerator):
    step = make_step(list("bacde"), [1, 2, 3, 4, 0], {"a": 0, "b": 1}, set("cde"))
    tables = step.tables(accelerator)
    counts = claims.counts_of(accelerator, lambda: step.update(before, tables))
    moves, new_with_tokens, lengths = 2, 2, 2
    assert counts["host_syncs"] == counts["h2d_pageable"] == moves + new_with_tokens + lengths


@pytest.mark.gpu
@pytest.mark.parametrize("step", [PASSED_ROUND, LARGE], ids=["small", "4k"])
def test_the_host_returns_while_the_device_is_busy(accelerator, step):
    tables = step.tables(accelerator)
    claims.expect_host_returns(accelerator, lambda: step.update(ngram, tables))


def test_overlapped_steps_are_all_right(accelerator):
    random = np.random.default_rng(2)
    some = []
    for _ in range(claims.OVERLAPPED_CALLS):
        rows_then = dict(zip("abcd", random.permutation(MAX_REQS).tolist(), strict=False))
        req_ids = random.permutation(list("abcdef")).tolist()
        some.append(make_step(req_ids, random.integers(0, 9, 6), rows_then, {"e", "f", "a"}))
    with_tables = [(step, step.tables(accelerator)) for step in some]

    def call(step_with_tables):
        step, tables = step_with_tables
        updated = tuple(table.clone() for table in tables)
        step.update(ngram, updated)
        return updated

    for step, updated in zip(some, claims.overlapped(accelerator, call, with_tables), strict=True):
        expect_as_expected(step, *updated)


def test_the_host_may_go_on_writing_to_its_table_at_once(accelerator):
    step = make_step(["a", "b"], [8, 8], None)
    tables, right = step.tables(accelerator), step.expected()
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(5.0)
        step.update(ngram, tables)
        step.batch.token_ids_cpu.fill(7)
        step.batch.num_tokens_cpu.fill(7)
    assert not timeline.hazards
    assert tables[0].cpu().numpy().tolist() == right[0].tolist()
    assert tables[1].cpu().numpy().tolist() == right[1].tolist()


def test_rows_may_lie_apart(accelerator):
    step = PASSED_ROUND
    wide = torch.full((MAX_REQS, MAX_LEN + 5), 77, dtype=torch.int32, device=accelerator.device)
    token_ids, num_tokens = step.tables(accelerator)
    wide[:, :MAX_LEN] = token_ids
    step.update(ngram, (wide[:, :MAX_LEN], num_tokens))
    expect_as_expected(step, wide[:, :MAX_LEN], num_tokens)
    assert (wide[:, MAX_LEN:] == 77).all()


def test_more_ids_than_one_program_writes(accelerator):
    num_reqs, max_len = 3, SCATTER_BLOCK
    lengths = [max_len - 1, 2, max_len]
    step = make_step(list("abc"), lengths, None, max_reqs=num_reqs, max_len=max_len)
    expect_as_expected(step, *step.run(ngram, accelerator)[:2])


@pytest.mark.gpu
def test_no_step_compiles_anything_anew(accelerator):
    compiled = scatter_rows_kernel.device_caches[torch.cuda.current_device()][0]
    PASSED_ROUND.run(ngram, accelerator)
    known = len(compiled)
    for lengths in ([1], [8], [8, 8], [1, 2, 3], [4, 4, 4, 4], [0, 0, 1, 0, 0]):
        make_step(list("abcdef")[: len(lengths)], lengths, None).run(ngram, accelerator)
    assert len(compiled) == known


@pytest.mark.parametrize(
    ("req_ids", "lengths", "previous", "new", "message"),
    [
        ("abc", [1, 2, 9], {"a": 0, "b": 1}, "c", "request 'c' has 9 tokens: a row holds 0 to 8"),
        ("ab", [1, -1], None, "", "request 'b' has -1 tokens"),
        ("abcdefg", [1] * 7, None, "", "7 requests: the tables have 6 rows"),
        ("aba", [1, 2, 3], None, "", "request 'a' has two rows"),
        ("cba", [1, 2, 3], {"a": 0, "b": 1}, "a", "request 'c' was not there in the last step"),
        ("a", [1], {}, "", "request 'a' was not there in the last step"),
        ("ab", [1, 2, 3], None, "", r"lengths of shape \[3\] for 2 requests"),
        ("ba", [1, 2], {"a": 0, "b": 6}, "", "row 6 in a move: there are 6 rows"),
        ("ba", [1, 2], {"a": -1, "b": 3}, "", "row -1 in a move"),
    ],
)
def test_bad_input_is_refused_and_named(accelerator, req_ids, lengths, previous, new, message):
    step = make_step(list(req_ids), lengths, previous, new)
    tables = step.tables(accelerator)
    expect_refused(accelerator, lambda: step.update(ngram, tables), message, unchanged=tables)


def test_tables_that_do_not_fit_are_refused_with_their_shapes(accelerator):
    step = SWAPPED
    token_ids, num_tokens = step.tables(accelerator)
    for tables, message in [
        (
            (token_ids[:, :7], num_tokens),
            r"tables of \[6, 7\] and \[6\] on the device for \[6, 8\]",
        ),
        ((token_ids, num_tokens[:5]), r"\[6, 8\] and \[5\]"),
        ((token_ids.long(), num_tokens), "torch.int64 and torch.int32: use int32"),
        ((token_ids, num_tokens.cpu()), "tables on (sim|cuda):0 and cpu: both must be on the"),
        ((token_ids.cpu(), num_tokens), "tables on cpu and (sim|cuda):0: both must be on the"),
        ((token_ids.t().contiguous().t(), num_tokens), r"strides \(1, 6\)"),
    ]:
        call = lambda tables=tables: step.update(ngram, tables)
        expect_refused(accelerator, call, message, unchanged=tables)


def test_host_ids_that_would_be_cut_off_are_refused():
    on_host = np.zeros((MAX_REQS, MAX_LEN), np.int64)
    with pytest.raises(ValueError, match="token ids of int64: the tables hold int32"):
        NgramBatch(["a"], on_host, np.array([1])).rows_by_req_id()
