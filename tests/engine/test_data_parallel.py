"""Ranks with requests of their own: each rank answers as it would alone, and all ranks end."""

import pytest
import torch

from .engine_ranks import OPTIMIZATIONS, SCENARIOS, run_engines

EACH_WAY = pytest.mark.parametrize("how", OPTIMIZATIONS)


@pytest.fixture(scope="module")
def ranks(accelerator, tmp_path_factory):
    """Returns what each of two ranks saw: ranks[rank][optimisations][scenario]. They use gloo on
    sim, and NCCL on two GPUs; with fewer GPUs the test is skipped."""
    if accelerator.name == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip(f"two NCCL ranks need 2 GPUs, and here is {torch.cuda.device_count()}")
    return run_engines(accelerator.name, 2, tmp_path_factory.mktemp("ranks"))


@EACH_WAY
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_rank_answers_as_the_reference_does(ranks, how, scenario):
    for rank in ranks:
        assert rank[how][scenario]["answers"] == rank[how][scenario]["right"]
        assert rank[how][scenario]["hazards"] == []


@EACH_WAY
def test_all_ranks_exchange_equally_often_whoever_has_work(ranks, how):
    """All ranks make the same number of exchanges in each scenario, whichever of them has work. If
    no rank has work, one exchange is enough."""
    exchanges = [[rank[how][name]["exchanges"] for name in SCENARIOS] for rank in ranks]
    assert exchanges[0] == exchanges[1]
    assert exchanges[0][-1] == 1


def test_a_rank_without_work_uploads_nothing_for_the_exchange(ranks):
    counts = ranks[1]["all"]["one has no work"]["counts"]
    assert ranks[1]["all"]["one has no work"]["steps"] == []
    assert counts["h2d_pageable"] == counts["h2d_pinned"] == 0
    assert counts["d2h"] == ranks[1]["all"]["one has no work"]["exchanges"] > 0


def test_a_rank_with_work_uploads_its_steps_alone(ranks):
    seen = ranks[0]["all"]["uneven"]
    assert seen["counts"]["h2d_pageable"] == 0
    assert seen["counts"]["h2d_pinned"] == len(seen["steps"])


def test_as_it_was_the_exchange_alone_is_four_uploads_and_a_read(ranks):
    seen = ranks[1]["sync_free off"]["one has no work"]
    assert seen["counts"]["h2d_pageable"] == 4 * seen["exchanges"]
    assert seen["counts"]["host_syncs"] == 5 * seen["exchanges"]


@EACH_WAY
def test_a_decode_is_padded_to_what_the_largest_rank_runs(ranks, how):
    """A decode of one request is padded to two rows if the largest rank decodes two requests in
    this step. The prefill before it is not padded."""
    assert ranks[1][how]["uneven"]["steps"] == [[3, 0], [1, 2]]


@EACH_WAY
def test_a_decode_beside_a_prefill_runs_in_a_graph_of_its_own_size(ranks, how):
    """A rank's decode isn't padded to another rank's prefill: it runs alone in its graph while the
    first rank prefills 160 tokens in steps of 64."""
    prefills = [tokens for tokens, _ in ranks[0][how]["one prefills"]["steps"][:3]]
    assert (prefills[:2], prefills[2] > 32) == ([64, 64], True)
    assert ranks[1][how]["one prefills"]["steps"][:4] == [[3, 0], [1, 0], [1, 0], [1, 4]]
