"""_init_model_kwargs, after and before the change: token type ids of a pooling batch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from solutions.sync_free.before import token_types as before
from solutions.sync_free.sites import token_types
from tests.common import claims
from tests.common.refusals import expect_refused

BOTH = pytest.mark.parametrize("module", [token_types, before], ids=["ours", "before"])
LARGE = 4096

lengths_and_starts = st.lists(st.integers(0, 6), max_size=8).flatmap(
    lambda lengths: st.tuples(
        st.just(lengths),
        st.dictionaries(st.integers(0, len(lengths) - 1), st.integers(-2, 9))
        if lengths
        else st.just({}),
    )
)


def oracle(lengths, starts):
    """Returns the expected token type ids of the batch, computed token by token."""
    return [
        int(request in starts and position >= starts[request])
        for request, length in enumerate(lengths)
        for position in range(length)
    ]


def arguments(accelerator, lengths, starts, unused=2):
    """Returns the arguments as a model runner passes them: its tensors have room for `unused` more
    requests than there are."""
    seq_lens_cpu = torch.tensor([*lengths, *[7] * unused], dtype=torch.int32)
    return starts, seq_lens_cpu.to(accelerator.device), seq_lens_cpu, len(lengths)


def large_batch(seed=1):
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 40, LARGE).tolist()
    requests = random.permutation(LARGE)[: LARGE // 2].tolist()
    return lengths, {request: int(random.integers(0, 45)) for request in requests}


@BOTH
@given(case=lengths_and_starts)
def test_ones_follow_zeros_from_the_start_on(accelerator, module, case):
    ids = module._init_model_kwargs(*arguments(accelerator, *case))["token_type_ids"]
    assert ids.dtype == torch.int32
    assert ids.device.type == accelerator.device.type
    assert ids.tolist() == oracle(*case)


@BOTH
@pytest.mark.parametrize(
    ("lengths", "starts", "ids"),
    [
        ([], {}, []),
        ([0], {0: 0}, []),
        ([0, 2, 0], {0: 0, 1: 1, 2: 3}, [0, 1]),
        ([3], {0: 0}, [1, 1, 1]),
        ([3], {0: 3}, [0, 0, 0]),
        ([3], {0: 2**40}, [0, 0, 0]),
        ([2, 2], {1: 1}, [0, 0, 0, 1]),
        ([2, 2], {}, [0, 0, 0, 0]),
    ],
)
def test_the_edges(accelerator, module, lengths, starts, ids):
    kwargs = module._init_model_kwargs(*arguments(accelerator, lengths, starts))
    assert kwargs["token_type_ids"].tolist() == ids


def test_4096_requests(accelerator):
    case = large_batch()
    ids = token_types._init_model_kwargs(*arguments(accelerator, *case))["token_type_ids"]
    assert ids.tolist() == oracle(*case)


def test_the_lengths_are_those_of_the_host(accelerator):
    seq_lens_cpu = torch.tensor([3, 2], dtype=torch.int32)
    fewer = torch.tensor([1, 1], dtype=torch.int32, device=accelerator.device)
    kwargs = token_types._init_model_kwargs({0: 1}, fewer, seq_lens_cpu, 2)
    assert kwargs["token_type_ids"].tolist() == [0, 1, 1, 0, 0]


def test_one_pinned_upload_and_no_wait(accelerator):
    args = arguments(accelerator, [3, 0, 5], {0: 1, 2: 4})
    claims.expect_no_wait(accelerator, lambda: token_types._init_model_kwargs(*args))


def test_without_token_types_nothing_is_uploaded(accelerator):
    args = arguments(accelerator, [3, 5], {})
    call = lambda: token_types._init_model_kwargs(*args)
    claims.expect_no_wait(accelerator, call, pinned_uploads=0)


def test_before_waited_for_each_request_and_for_the_upload(accelerator):
    args = arguments(accelerator, [3, 0, 5], {0: 1, 2: 4})
    counts = claims.counts_of(accelerator, lambda: before._init_model_kwargs(*args))
    assert (counts["host_syncs"], counts["d2h"], counts["h2d_pageable"]) == (4, 3, 1)


@pytest.mark.gpu
def test_the_host_returns_at_once_also_with_4096_requests(accelerator):
    args = arguments(accelerator, *large_batch())
    claims.expect_host_returns(accelerator, lambda: token_types._init_model_kwargs(*args))


def test_overlapped_calls_all_arrive(accelerator):
    cases = [([5, step], {0: step % 6, 1: step % 5}) for step in range(claims.OVERLAPPED_CALLS)]
    inputs = [arguments(accelerator, *case) for case in cases]
    call = lambda args: token_types._init_model_kwargs(*args)["token_type_ids"]
    results = claims.overlapped(accelerator, call, inputs)
    assert [ids.tolist() for ids in results] == [oracle(*case) for case in cases]


@pytest.mark.parametrize(
    ("starts", "lengths", "num_reqs", "message"),
    [
        ({2: 1}, [3, 4], 2, "token types start in request 2, and this batch has 2 requests"),
        ({-1: 1}, [3, 4], 2, "token types start in request -1"),
        ({0: 1}, [3, -4], 2, "request 1 has a length of -4"),
        ({}, [3, 4], 3, "3 requests, and the lengths of 2"),
        ({}, [3, 4], -1, "-1 requests"),
        ({}, [[3], [4]], 2, r"optimistic_seq_lens_cpu is int32 \[2, 1\]"),
        pytest.param({True: 1}, [3, 4], 2, "token types start in request True", id="a mask"),
        pytest.param({0.5: 1}, [3, 4], 2, "token types start in request 0.5", id="half a request"),
        pytest.param({1: 2.7}, [3, 4], 2, "token types of request 1 start at 2.7", id="a fraction"),
        pytest.param({1: "2"}, [3, 4], 2, "token types of request 1 start at '2'", id="a word"),
    ],
)
def test_what_cannot_be_is_refused(accelerator, starts, lengths, num_reqs, message):
    seq_lens_cpu = torch.tensor(lengths, dtype=torch.int32)
    seq_lens = seq_lens_cpu.to(accelerator.device)
    call = lambda: token_types._init_model_kwargs(starts, seq_lens, seq_lens_cpu, num_reqs)
    expect_refused(accelerator, call, message, unchanged=(seq_lens,))


def test_lengths_on_the_device_are_refused(accelerator):
    seq_lens = torch.ones(2, dtype=torch.int32, device=accelerator.device)
    call = lambda: token_types._init_model_kwargs({}, seq_lens, seq_lens, 2)
    expect_refused(accelerator, call, "give it on the host", unchanged=(seq_lens,))
