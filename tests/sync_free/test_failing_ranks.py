"""Failing ranks: the other ranks are told in time which rank failed and where, in any exchange, and
never take the numbers of one exchange for those of another."""

import re

import pytest

from .failing_ranks import CASES, EXCHANGES, FIRST, TIMEOUT_S, Case, run_cases

pytestmark = pytest.mark.sim
KINDS = {(case.size, case.way) for case in CASES}
NUM_PARTS = 10


def part_of_all(number: int) -> list[Case]:
    """Returns part `number` of all cases: one or two cases of each group size and way to fail."""
    of_kinds = ([case for case in CASES if (case.size, case.way) == kind] for kind in sorted(KINDS))
    return [case for of_kind in of_kinds for case in of_kind[number::NUM_PARTS]]


def right(case: Case, exchange: int) -> list[int]:
    return [100 * exchange + rank for rank in range(case.size)]


def expect_told(case: Case, rank: int, seen: dict) -> None:
    at = case.exchange - FIRST
    before, now, later = seen["heard"][:at], seen["heard"][at], seen["heard"][at + 1 :]
    assert before == [right(case, FIRST + number) for number in range(at)]
    assert seen["seconds"] < TIMEOUT_S + 1.5  # a busy machine is slower
    if case.way == "refuses":
        if rank == case.rank:
            assert now == "ValueError: -1 tokens: a rank that has nothing to run has 0"
        else:
            assert now.startswith(
                f"RuntimeError: exchange {case.exchange}: rank {case.rank} refused"
            )
        assert later == [right(case, case.exchange + 1 + number) for number in range(len(later))]
    elif case.way == "is interrupted":
        # This rank's next exchange meets the current one of the others.
        apart = [case.exchange + (each == case.rank) for each in range(case.size)]
        told = [now, *later] if rank != case.rank else later
        assert (rank != case.rank) or now == "KeyboardInterrupt: now"
        assert told[0].startswith(f"RuntimeError: the ranks are at exchanges {apart}, rank 0 first")
        assert all(isinstance(each, str) for each in told)
    else:
        who = f"rank {case.rank} of {case.size} did not take part"
        assert re.match(f"RuntimeError: exchange {case.exchange} .* within 4 s: {who}", now), now
        assert later == [now] * len(later)


@pytest.mark.deep(NUM_PARTS)
@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_the_others_are_told_which_rank_and_which_exchange(tmp_path, part):
    for case, seen in run_cases(tmp_path, part_of_all(part)).items():
        for rank, of_rank in enumerate(seen):
            if rank == case.rank and case.way in ("dies", "hangs"):
                assert not of_rank
                continue
            assert len(of_rank["heard"]) == EXCHANGES, case
            expect_told(case, rank, of_rank)


def test_each_way_and_size_is_in_the_slice_of_each_run():
    assert {(case.size, case.way) for case in part_of_all(1)} == KINDS
    assert sorted(each for n in range(NUM_PARTS) for each in part_of_all(n)) == sorted(CASES)
