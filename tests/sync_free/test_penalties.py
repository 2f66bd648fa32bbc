"""bincount, after and before the change."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import debubble
from solutions.sync_free.before import penalties as before
from solutions.sync_free.sites import penalties
from tests.common import claims
from tests.common.refusals import expect_refused

BOTH = pytest.mark.parametrize("module", [penalties, before], ids=["ours", "before"])
MAX_REQS = 5


@dataclass(frozen=True)
class Case:
    """The inputs of bincount as arrays on the host: the requests to count, their tokens, and the
    two tables before the call."""

    req_indices: list[int]
    prompt_lens: list[int]
    prefill_lens: list[int]
    token_ids: np.ndarray
    bits: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, tokens, lengths, vocab_size, max_len=None):
        """Returns a Case. `tokens` is {request: its token ids}, `lengths` {request: (length of the
        prompt, length in all)}. All other ids are -1."""
        max_reqs = max(MAX_REQS, *tokens, *lengths) + 1
        max_len = max_len or max(map(len, tokens.values()), default=1)
        token_ids = np.full((max_reqs, max_len), -1, np.int32)
        for request, ids in tokens.items():
            token_ids[request, : len(ids)] = ids
        return cls(
            list(lengths),
            [prompt for prompt, _ in lengths.values()],
            [prefill for _, prefill in lengths.values()],
            token_ids,
            np.full((max_reqs, -(-vocab_size // 32)), -1, np.int32),
            np.full((max_reqs, vocab_size), -1, np.int32),
        )

    def on_device(self, accelerator):
        """Returns (all_token_ids, prompt_bin_mask, output_bin_counts) on the device."""
        arrays = (self.token_ids, self.bits, self.counts)
        return tuple(torch.from_numpy(array).to(accelerator.device) for array in arrays)

    def run(self, module, tables):
        """Runs the bincount of `module`, and returns the two tables (prompt_bin_mask,
        output_bin_counts)."""
        token_ids, bits, counts = tables
        lengths = (self.prompt_lens, self.prefill_lens)
        module.bincount(self.req_indices, token_ids, *lengths, bits, counts)
        return bits, counts

    def expected(self):
        """Returns the expected tables, made token by token; each word of the mask is built as an
        unsigned 32-bit number."""
        bits, counts = self.bits.view(np.uint32).copy(), self.counts.copy()
        vocab_size = counts.shape[1]
        lengths = zip(self.prompt_lens, self.prefill_lens, strict=True)
        for request, (prompt_len, prefill_len) in zip(self.req_indices, lengths, strict=True):
            tokens = self.token_ids[request].tolist()
            prompt = {token for token in tokens[:prompt_len] if 0 <= token < vocab_size}
            for word in range(bits.shape[1]):
                bits[request, word] = sum(
                    1 << token % 32 for token in prompt if token // 32 == word
                )
            output = tokens[prompt_len:prefill_len]
            counts[request] = [output.count(token) for token in range(vocab_size)]
        return bits.view(np.int32), counts


def expect_as_expected(case, tables):
    for table, right in zip(tables, case.expected(), strict=True):
        np.testing.assert_array_equal(table.cpu().numpy(), right)


@st.composite
def cases(draw):
    """Draws a Case of requests with different lengths in any order, whose ids repeat and are
    sometimes invalid."""
    vocab_size = draw(st.sampled_from([1, 31, 32, 33, 70]))
    max_len = draw(st.integers(1, 12))
    requests = draw(st.lists(st.integers(0, MAX_REQS - 1), unique=True))
    prefills = [draw(st.integers(0, max_len)) for _ in requests]
    prompts = [draw(st.integers(0, prefill)) for prefill in prefills]
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    odd = draw(st.booleans())
    return Case(
        requests,
        prompts,
        prefills,
        random.integers(-2 * odd, vocab_size + 2 * odd, (MAX_REQS, max_len), dtype=np.int32),
        random.integers(-(1 << 31), 1 << 31, (MAX_REQS, -(-vocab_size // 32)), dtype=np.int32),
        random.integers(-(1 << 31), 1 << 31, (MAX_REQS, vocab_size), dtype=np.int32),
    )


@BOTH
@given(case=cases())
def test_the_tables_are_those_of_the_oracle(accelerator, module, case):
    expect_as_expected(case, case.run(module, case.on_device(accelerator)))


def large_case():
    random = np.random.default_rng(6)
    prefills = random.integers(0, 24, 4096)
    return Case(
        random.permutation(4096).tolist(),
        (prefills * random.random(4096)).astype(int).tolist(),
        prefills.tolist(),
        random.integers(0, 70, (4096, 24), dtype=np.int32),
        np.full((4096, 3), -1, np.int32),
        np.full((4096, 70), -1, np.int32),
    )


@pytest.mark.deep
def test_4096_requests(accelerator):
    case = large_case()
    tables = case.on_device(accelerator)
    with debubble.no_host_syncs():
        result = case.run(penalties, tables)
    expect_as_expected(case, result)


@pytest.mark.parametrize("length", [1023, 1024, 1025, 2049])
def test_tokens_at_the_edge_of_a_block_count_once(accelerator, length):
    ids = [i % 7 for i in range(2100)]
    lengths = {1: (length - 1, length), 2: (3, length), 0: (0, 0), 4: (length, length)}
    case = Case.of(dict.fromkeys(range(5), ids), lengths, vocab_size=40)
    expect_as_expected(case, case.run(penalties, case.on_device(accelerator)))


def test_the_sign_bit_is_a_bit_like_any_other(accelerator):
    case = Case.of(
        {0: [31, 31], 1: [63, 32], 2: range(64)}, {0: (2, 2), 1: (2, 2), 2: (64, 64)}, 64
    )
    bits, _ = case.run(penalties, case.on_device(accelerator))
    assert bits[:3].tolist() == [[-(1 << 31), 0], [0, 1 - (1 << 31)], [-1, -1]]


def test_a_prompt_says_whether_and_an_output_how_often(accelerator):
    case = Case.of({3: [5, 5, 5, 5, 6, 5]}, {3: (2, 6)}, vocab_size=8)
    bits, counts = case.run(penalties, case.on_device(accelerator))
    assert bits[3].tolist() == [1 << 5]
    assert counts[3].tolist() == [0, 0, 0, 0, 0, 3, 1, 0]


def test_a_request_that_resumes_is_counted_from_the_start(accelerator):
    case = Case.of({2: [1, 2, 3, 3]}, {2: (2, 3)}, vocab_size=40)
    tables = case.on_device(accelerator)
    case.run(penalties, tables)
    resumed = replace(case, prefill_lens=[4])
    expect_as_expected(resumed, resumed.run(penalties, tables))


def test_an_id_outside_of_the_vocabulary_writes_nowhere(accelerator):
    odd = [-1, 40, 63, 64, 1 << 30, -(1 << 31), 3]
    case = Case.of({0: odd * 2, 1: odd * 2}, {0: (7, 14), 1: (14, 14)}, vocab_size=40)
    bits, counts = case.run(penalties, case.on_device(accelerator))
    assert bits[:2].tolist() == [[1 << 3, 0]] * 2
    assert [counts[0].sum().item(), counts[0, 3].item(), counts[1].sum().item()] == [1, 1, 0]
    assert (bits[2:] == -1).all() and (counts[2:] == -1).all()


def test_arrays_do_as_well_as_lists(accelerator):
    case = Case.of({0: [1, 2, 3], 4: [3, 3, 3]}, {4: (1, 3), 0: (2, 2)}, vocab_size=8)
    arrays = {
        name: np.array(getattr(case, name), np.int32)
        for name in ("req_indices", "prompt_lens", "prefill_lens")
    }
    for module in (penalties, before):
        result = replace(case, **arrays).run(module, case.on_device(accelerator))
        expect_as_expected(case, result)


def test_one_upload_however_many_requests_and_no_wait(accelerator):
    tokens = {request: [1, 2, 3] for request in range(4)}
    for lengths in ({1: (1, 2)}, dict.fromkeys(range(4), (2, 3))):
        case = Case.of(tokens, lengths, vocab_size=40)
        tables = case.on_device(accelerator)
        call = lambda case=case, tables=tables: case.run(penalties, tables)
        assert claims.expect_no_wait(accelerator, call)["kernels"] == 3


def test_as_it_was_it_waited_six_times(accelerator):
    case = Case.of({0: [1, 2]}, {0: (1, 2)}, vocab_size=40)
    tables = case.on_device(accelerator)
    counts = claims.counts_of(accelerator, lambda: case.run(before, tables))
    assert counts["host_syncs"] == counts["h2d_pageable"] == 6


@BOTH
def test_without_requests_nothing_changes(accelerator, module):
    case = Case.of({0: [1, 2]}, {}, vocab_size=40)
    expect_as_expected(case, case.run(module, case.on_device(accelerator)))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "case", [Case.of({0: [1]}, {0: (0, 1)}, 40), large_case()], ids=["1", "4k"]
)
def test_the_host_returns_while_the_device_is_busy(accelerator, case):
    tables = case.on_device(accelerator)
    claims.expect_host_returns(accelerator, lambda: case.run(penalties, tables))


def test_overlapped_calls_are_all_right(accelerator):
    random = np.random.default_rng(2)
    tokens = {request: random.integers(0, 40, 9).tolist() for request in range(MAX_REQS)}
    inputs = []
    for _ in range(claims.OVERLAPPED_CALLS):
        requests = random.permutation(MAX_REQS)[: random.integers(1, 4)].tolist()
        lengths = {request: sorted(random.integers(0, 10, 2).tolist()) for request in requests}
        inputs.append(Case.of(tokens, lengths, vocab_size=40))
    fresh = inputs[0].on_device(accelerator)

    def call(case):
        return case.run(penalties, [table.clone() for table in fresh])

    for case, tables in zip(inputs, claims.overlapped(accelerator, call, inputs), strict=True):
        expect_as_expected(case, tables)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"req_indices": [1, 6]}, r"request 6: rows must be in \[0, 6\)"),
        ({"req_indices": [1, -1]}, r"request -1: rows must be in \[0, 6\)"),
        ({"req_indices": [2, 2]}, "request 2 is named 2 times"),
        ({"prompt_lens": [2, -3]}, "request 3 has a prompt of -3 tokens, and 4 in all"),
        ({"prompt_lens": [2, 5]}, "request 3 has a prompt of 5 tokens, and 4 in all"),
        ({"prefill_lens": [2, 5]}, "request 3 has a prompt of 4 tokens, and 5 in all: .* 4 a req"),
        ({"prefill_lens": [2]}, "2 requests, 2 prompt lengths and 1 prefill lengths"),
        pytest.param({"req_indices": [1.5, 3]}, "req_indices is float64", id="half a row"),
        pytest.param({"prompt_lens": [1.5, 4]}, "prompt_lens is float64", id="half a prompt"),
        pytest.param(
            {"prefill_lens": [2, float("nan")]}, "prefill_lens is float64", id="no length at all"
        ),
    ],
)
def test_bad_input_is_refused_and_named(accelerator, changed, message):
    case = Case.of({1: [1, 2], 3: [1, 2, 3, 3]}, {1: (2, 2), 3: (4, 4)}, vocab_size=40)
    tables = case.on_device(accelerator)
    call = lambda: replace(case, **changed).run(penalties, tables)
    expect_refused(accelerator, call, message, unchanged=tables)


@pytest.mark.parametrize(
    ("shapes", "dtype", "message"),
    [
        (((4, 8), (4, 2), (4, 65)), torch.int32, "2 words of 32 bits for 65 tokens: make it 3"),
        (((4, 8), (3, 2), (4, 64)), torch.int32, r"tables of \[4, 3, 4\] rows"),
        (((4, 8), (4, 2), (4, 64)), torch.int64, r"all_token_ids is torch.int64 \[4, 8\]"),
        (((4, 8), (8,), (4, 64)), torch.int32, r"prompt_bin_mask is torch.int32 \[8\]"),
    ],
)
def test_tables_that_do_not_fit_are_refused(accelerator, shapes, dtype, message):
    tables = [torch.zeros(shape, dtype=dtype, device=accelerator.device) for shape in shapes]
    call = lambda: penalties.bincount([1], tables[0], [1], [2], *tables[1:])
    expect_refused(accelerator, call, message, unchanged=tables)


@pytest.mark.parametrize("on_host", ["all_token_ids", "prompt_bin_mask", "output_bin_counts"])
def test_a_table_on_the_host_is_refused_before_another_is_changed(accelerator, on_host):
    names = ("all_token_ids", "prompt_bin_mask", "output_bin_counts")
    tables = [
        torch.ones(
            shape, dtype=torch.int32, device="cpu" if name == on_host else accelerator.device
        )
        for name, shape in zip(names, [(4, 8), (4, 2), (4, 40)], strict=True)
    ]
    call = lambda: penalties.bincount([1], tables[0], [1], [2], *tables[1:])
    expect_refused(accelerator, call, "must be on the accelerator", unchanged=tables)


@pytest.mark.gpu
@pytest.mark.gpu_memory(9)
def test_offsets_beyond_32_bits_are_written(accelerator):
    vocab_size = 1 << 17
    max_reqs = (1 << 31) // vocab_size + 2
    tokens = torch.full((max_reqs, 2), vocab_size - 1, dtype=torch.int32, device=accelerator.device)
    shapes = ((max_reqs, vocab_size // 32), (max_reqs, vocab_size))
    bits, counts = (
        torch.zeros(shape, dtype=torch.int32, device=accelerator.device) for shape in shapes
    )
    penalties.bincount([max_reqs - 1], tokens, [1], [2], bits, counts)
    assert (bits[-1, -1].item(), counts[-1, -1].item()) == (-(1 << 31), 1)
    for table in (bits, counts):
        assert sum(int(torch.count_nonzero(rows)) for rows in table.split(64)) == 1
