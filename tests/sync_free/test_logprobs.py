"""gather_specific_token_logprobs and its two parts, after and before the change."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import debubble
from solutions.sync_free.before import logprobs as before
from solutions.sync_free.kernels import logprobs as kernels
from solutions.sync_free.sites import logprobs
from solutions.sync_free.sites.chosen_tokens import plan_chosen_tokens
from tests.common import claims
from tests.common.refusals import expect_refused

BOTH = pytest.mark.parametrize("module", [logprobs, before], ids=["ours", "before"])
LOOKED_UP = pytest.mark.parametrize("module", [kernels, before], ids=["ours", "before"])
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = 1e-5
MINUS_INFINITY = float("-inf")


@st.composite
def batches(draw):
    """Draws (logits, {row: requested ids}, sampled ids) of up to 5 rows, with some logits equal and
    some -inf."""
    num_rows, vocab_size = draw(st.integers(1, 5)), draw(st.integers(1, 40))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    logits = random.integers(-40, 40, (num_rows, vocab_size)).astype(np.float32) / 4
    masked = random.random(logits.shape) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    masked[np.arange(num_rows), random.integers(0, vocab_size, num_rows)] = False
    logits[masked] = -np.inf
    asked = st.lists(st.integers(0, vocab_size - 1), max_size=6)
    requested = draw(st.dictionaries(st.integers(0, num_rows - 1), asked, min_size=1))
    return logits, requested, random.integers(0, vocab_size, num_rows)


def on_device(accelerator, logits, sampled, dtype=torch.float32):
    logits = torch.from_numpy(logits).to(accelerator.device, dtype)
    return logits, torch.from_numpy(sampled).to(accelerator.device)


def expected(logits, requested, sampled):
    """Returns the expected (ids, log-probabilities, ranks) in float64, computed row by row and id
    by id."""
    width = 1 + max(map(len, requested.values()))
    ids = np.zeros((len(logits), width), np.int32)
    values = np.full((len(logits), width), -np.inf)
    ranks = np.zeros(len(logits), np.int64)
    for row, of_row in enumerate(logits.astype(np.float64)):
        normaliser = of_row.max() + np.log(np.exp(of_row - of_row.max()).sum())
        for column, token in enumerate([sampled[row], *requested.get(row, [])]):
            ids[row, column] = token
            values[row, column] = of_row[token] - normaliser
        ranks[row] = sum(other >= of_row[sampled[row]] for other in of_row)
    return ids, values, ranks


def expect_as_expected(tensors, logits, requested, sampled):
    ids, values, ranks = expected(logits, requested, sampled)
    assert [tensor.dtype for tensor in tensors] == [torch.int32, torch.float32, torch.int64]
    np.testing.assert_array_equal(tensors.logprob_token_ids.cpu().numpy(), ids)
    np.testing.assert_allclose(tensors.logprobs.cpu().numpy(), values, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(tensors.selected_token_ranks.cpu().numpy(), ranks)


@BOTH
@given(batch=batches())
def test_the_tensors_are_those_of_the_oracle(accelerator, module, batch):
    logits, requested, sampled = batch
    tensors = on_device(accelerator, logits, sampled)
    result = module.gather_specific_token_logprobs(tensors[0], requested, tensors[1])
    expect_as_expected(result, logits, requested, sampled)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("vocab_size", [1, 33, kernels.TILE, kernels.TILE + 1, 20_000])
def test_vocabularies_of_any_size_and_logits_of_any_type(accelerator, dtype, vocab_size):
    random = np.random.default_rng(vocab_size)
    logits = torch.from_numpy(random.normal(0, 4, (3, vocab_size)).astype(np.float32)).to(dtype)
    sampled = random.integers(0, vocab_size, 3)
    requested = {0: [vocab_size - 1, 0], 2: random.integers(0, vocab_size, 50).tolist()}
    tensors = on_device(accelerator, logits.float().numpy(), sampled, dtype)
    result = logprobs.gather_specific_token_logprobs(tensors[0], requested, tensors[1])
    expect_as_expected(result, logits.float().numpy(), requested, sampled)


def large_batch(vocab_size=64):
    random = np.random.default_rng(8)
    logits = random.normal(0, 4, (4096, vocab_size)).astype(np.float32)
    lengths = random.integers(0, 6, 4096)
    requested = {
        row: random.integers(0, vocab_size, lengths[row]).tolist()
        for row in range(4096)
        if row % 9 != 4
    }
    return logits, requested, random.integers(0, vocab_size, 4096)


@pytest.mark.deep
def test_4096_requests(accelerator):
    logits, requested, sampled = large_batch()
    tensors = on_device(accelerator, logits, sampled)
    with debubble.no_host_syncs():
        result = logprobs.gather_specific_token_logprobs(tensors[0], requested, tensors[1])
    expect_as_expected(result, logits, requested, sampled)


@BOTH
def test_it_is_none_when_nobody_asks(accelerator, module):
    logits = torch.zeros(2, 5, device=accelerator.device)
    sampled = torch.zeros(2, dtype=torch.int64, device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        assert module.gather_specific_token_logprobs(logits, {}, sampled) is None
    assert timeline.events == []


@BOTH
def test_an_empty_list_asks_for_the_sampled_token_alone(accelerator, module):
    logits = torch.zeros(2, 4, device=accelerator.device)
    sampled = torch.tensor([3, 1], device=accelerator.device)
    result = module.gather_specific_token_logprobs(logits, {1: []}, sampled)
    assert result.logprob_token_ids.tolist() == [[3], [1]]
    assert result.logprobs.exp().flatten().tolist() == pytest.approx([0.25, 0.25], abs=TOLERANCE)


@BOTH
def test_a_row_that_asks_for_nothing_has_its_sampled_token_and_nothing_else(accelerator, module):
    logits = torch.zeros(3, 4, device=accelerator.device)
    sampled = torch.tensor([3, 2, 1], dtype=torch.int32, device=accelerator.device)
    result = module.gather_specific_token_logprobs(logits, {1: [0, 2]}, sampled)
    assert result.logprob_token_ids.tolist() == [[3, 0, 0], [2, 0, 2], [1, 0, 0]]
    is_meant = (result.logprobs > MINUS_INFINITY).tolist()
    assert is_meant == [[True, False, False], [True] * 3, [True, False, False]]


@LOOKED_UP
def test_forbidden_tokens_are_impossible_and_the_others_still_sum_to_one(accelerator, module):
    """Log-probabilities and ranks are right if whole blocks of logits are -inf, before and after
    the remaining ones, as bad words leave them."""
    vocab_size = 3 * kernels.TILE
    left = [kernels.TILE + 5, kernels.TILE + 9]
    logits = torch.full((1, vocab_size), MINUS_INFINITY, device=accelerator.device)
    for token in left:
        logits[0, token : token + 1] = 7.5
    ids = torch.tensor([[*left, 0, vocab_size - 1]], device=accelerator.device)
    values = module.compute_token_logprobs(logits, ids)
    assert values[0, :2].exp().tolist() == pytest.approx([0.5, 0.5], abs=TOLERANCE)
    assert values[0, 2:].tolist() == [MINUS_INFINITY] * 2
    assert module.compute_token_ranks(logits, ids[:, 0]).tolist() == [2]
    assert module.compute_token_ranks(logits, ids[:, 3]).tolist() == [vocab_size]


@LOOKED_UP
@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("vocab_size", [3, kernels.TILE + 3])
def test_what_is_no_distribution_gives_nan_and_harms_no_other_row(accelerator, module, vocab_size):
    logits = torch.zeros(4, vocab_size)
    logits[0, 1], logits[1], logits[2, 2] = float("nan"), MINUS_INFINITY, float("inf")
    ids = torch.tensor([[0, 1]] * 4, device=accelerator.device)
    values = module.compute_token_logprobs(logits.to(accelerator.device), ids)
    assert values.isnan().tolist() == [[True, True]] * 3 + [[False, False]]


@LOOKED_UP
def test_the_rank_counts_logits_that_are_at_least_as_high(accelerator, module):
    logits = torch.tensor([[1.0, 3.0, 2.0, 3.0]] * 4, device=accelerator.device)
    ranks = module.compute_token_ranks(logits, torch.arange(4, device=accelerator.device))
    assert ranks.tolist() == [4, 2, 3, 2]


def test_an_id_that_the_host_could_not_check_reads_nothing(accelerator):
    logits = torch.zeros(2, 4, device=accelerator.device)
    ids = torch.tensor([[-1, 1 << 40, 2], [4, 0, -5]], device=accelerator.device)
    values = kernels.compute_token_logprobs(logits, ids)
    is_token = (values > MINUS_INFINITY).tolist()
    assert is_token == [[False, False, True], [False, True, False]]
    assert kernels.compute_token_ranks(logits, ids[:, 0]).tolist() == [4, 4]


def test_rows_may_lie_apart_and_ids_too(accelerator):
    padded = torch.arange(3 * 64, dtype=torch.float32, device=accelerator.device).view(3, 64).sin()
    ids = torch.tensor([[4, 2, 0]] * 3, dtype=torch.int32, device=accelerator.device).t()
    right = torch.log_softmax(padded[:, :40].cpu(), -1)[torch.arange(3)[:, None], ids.cpu().long()]
    values = kernels.compute_token_logprobs(padded[:, :40], ids)
    assert (values.cpu() - right).abs().max() < TOLERANCE


def counts_of(accelerator, module, requested, num_rows=4):
    logits = torch.zeros(num_rows, 64, device=accelerator.device)
    sampled = torch.zeros(num_rows, dtype=torch.int64, device=accelerator.device)
    call = lambda: module.gather_specific_token_logprobs(logits, requested, sampled)
    if module is logprobs:
        claims.expect_no_wait(accelerator, call)
    return claims.counts_of(accelerator, call)


def test_one_upload_however_many_ask_and_no_wait(accelerator):
    few = counts_of(accelerator, logprobs, {0: [1]})
    many = counts_of(accelerator, logprobs, {row: [1, 2, 3] for row in range(4)})
    assert few == many
    assert few["kernels"] == 5


def test_one_long_list_does_not_make_the_others_long():
    plan = plan_chosen_tokens({7: range(10_000), 8: [1]}, num_rows=256, vocab_size=10_000)
    assert sum(array.nbytes for array in plan.arrays.values()) < 13 * 10_000


def test_as_it_was_it_waited_for_every_row_that_asked(accelerator):
    counts = counts_of(accelerator, before, {0: [1], 1: [], 2: [3, 4], 3: [5]})
    assert counts["host_syncs"] == counts["h2d_pageable"] == 3


@pytest.mark.gpu
@pytest.mark.parametrize("size", ["3 rows", "4096 rows"])
def test_the_host_returns_while_the_device_is_busy(accelerator, size):
    batch = large_batch()
    if size == "3 rows":
        batch = (batch[0][:3], {0: [1, 2], 2: [3]}, batch[2][:3])
    logits, sampled = on_device(accelerator, batch[0], batch[2])
    call = lambda: logprobs.gather_specific_token_logprobs(logits, batch[1], sampled)
    claims.expect_host_returns(accelerator, call)


def test_overlapped_calls_are_all_right(accelerator):
    random = np.random.default_rng(5)
    logits = random.normal(0, 4, (3, 50)).astype(np.float32)
    batches = []
    for _ in range(claims.OVERLAPPED_CALLS):
        lengths = random.integers(1, 5, 3)
        requested = {row: random.integers(0, 50, lengths[row]).tolist() for row in range(3)}
        batches.append((requested, random.integers(0, 50, 3)))
    inputs = [(asked, on_device(accelerator, logits, sampled)) for asked, sampled in batches]
    call = lambda one: logprobs.gather_specific_token_logprobs(one[1][0], one[0], one[1][1])
    results = claims.overlapped(accelerator, call, inputs)
    for result, (requested, sampled) in zip(results, batches, strict=True):
        expect_as_expected(result, logits, requested, sampled)


@BOTH
@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ({0: [1], 3: [2]}, "row 3 asks .* 3 rows"),
        ({0: [1], -1: [2]}, "row -1 asks .* 3 rows"),
        ({0: [1], 1: [2, 7]}, r"row 1 asks .* token 7: ids must be in \[0, 7\)"),
        ({2: [1, -1]}, r"row 2 asks .* token -1: ids must be in \[0, 7\)"),
        ({1: [1 << 40]}, "row 1 asks .* token 1099511627776"),
        pytest.param({True: [1]}, "row True asks", id="a mask"),
        pytest.param({0.5: [1]}, "row 0.5 asks", id="half a row"),
        pytest.param({1: [1, 2.7]}, "row 1 asks .* token 2.7", id="a fraction"),
        pytest.param({1: [True]}, "row 1 asks .* token True", id="a truth"),
        pytest.param({1: "12"}, "what row 1 asks for is '12': give a list", id="a word"),
        pytest.param({1: [1 << 70]}, "row 1 asks .* token 1180591620717411303424", id="too large"),
    ],
)
def test_bad_input_is_refused_and_named(accelerator, module, requested, message):
    logits = torch.zeros(3, 7, device=accelerator.device)
    sampled = torch.zeros(3, dtype=torch.int64, device=accelerator.device)
    call = lambda: module.gather_specific_token_logprobs(logits, requested, sampled)
    expect_refused(accelerator, call, message, unchanged=(logits, sampled))


@BOTH
def test_ids_on_the_device_are_refused(accelerator, module):
    ids = torch.ones(2, dtype=torch.int64, device=accelerator.device)
    logits = torch.zeros(2, 7, device=accelerator.device)
    call = lambda: module.gather_specific_token_logprobs(logits, {0: ids}, ids)
    with pytest.raises(ValueError, match=r"row 0 asks for is a torch\.int64 tensor"):
        call()


@pytest.mark.parametrize(
    ("shape", "dtype", "num_sampled", "message"),
    [
        ((3,), torch.float32, 3, r"logits of shape \[3\]"),
        ((3, 0), torch.float32, 3, r"logits of shape \[3, 0\]"),
        ((3, 4), torch.float64, 3, "logits of torch.float64"),
        ((3, 4), torch.float32, 2, r"sampled tokens of shape \[2\] for logits of \[3, 4\]"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(accelerator, shape, dtype, num_sampled, message):
    logits = torch.zeros(shape, dtype=dtype, device=accelerator.device)
    sampled = torch.zeros(num_sampled, dtype=torch.int64, device=accelerator.device)
    call = lambda: logprobs.gather_specific_token_logprobs(logits, {0: [1]}, sampled)
    expect_refused(accelerator, call, message, unchanged=(logits, sampled))


def test_logits_whose_rows_are_not_contiguous_are_refused(accelerator):
    logits = torch.zeros(4, 3, device=accelerator.device).t()
    ids = torch.zeros(3, 1, dtype=torch.int64, device=accelerator.device)
    call = lambda: kernels.compute_token_logprobs(logits, ids)
    expect_refused(accelerator, call, r"strides \(1, 3\)", unchanged=(logits,))


@pytest.mark.gpu
@pytest.mark.gpu_memory(5)
def test_offsets_beyond_32_bits_are_read(accelerator):
    vocab_size = 1 << 17
    num_rows = (1 << 31) // vocab_size + 2
    logits = torch.zeros(num_rows, vocab_size, dtype=torch.bfloat16, device=accelerator.device)
    logits[-1, -1:] = 100.0
    sampled = torch.full((num_rows,), vocab_size - 1, device=accelerator.device)
    result = logprobs.gather_specific_token_logprobs(logits, {num_rows - 1: [5]}, sampled)
    assert result.logprobs[-1].tolist() == [0.0, -100.0]
    assert result.selected_token_ranks[-2:].tolist() == [vocab_size, 1]


@pytest.mark.gpu
def test_no_memory_is_taken_for_the_whole_vocabulary(accelerator):
    logits = torch.zeros(64, 128_256, dtype=torch.bfloat16, device=accelerator.device)
    sampled = torch.zeros(64, dtype=torch.int64, device=accelerator.device)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    logprobs.gather_specific_token_logprobs(logits, {3: [1, 2]}, sampled)
    assert torch.cuda.max_memory_allocated() - held < logits.numel() // 32
