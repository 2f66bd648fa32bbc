"""Each system's tests notice a small edit of its source, or the edit has its reason."""

from pathlib import Path

import pytest

from .making import mutants, sources
from .verdicts import COMMON, MOST_SURVIVE, NAMES, ONE_IN, outcome, read_reasons, system

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.sim


@pytest.mark.timeout(600)
def test_a_few_mutants_of_a_file_fail():
    file, tests = "solutions/engine/memory/block_manager.py", "tests/engine/test_block_manager.py"
    found = outcome(ROOT, [file], [tests], ONE_IN)
    assert len(found.verdicts) > 2
    assert found.unexplained == found.stale == []


@pytest.mark.timeout(7200)
@pytest.mark.deep
@pytest.mark.parametrize("name", [*NAMES, COMMON])
def test_no_mutant_of_the_sample_passes_without_a_reason(name):
    found = outcome(ROOT, sources(ROOT, name), system(name, ROOT).tests, ONE_IN)
    assert found.unexplained == found.stale == []


def test_the_sample_is_large_and_few_of_it_may_pass():
    sample = [it for name in (*NAMES, COMMON) for it in mutants(ROOT, sources(ROOT, name), ONE_IN)]
    reasons = dict(read_reasons())
    tables = [reasons.get(mutant.key) for mutant in sample]
    others = tables.count(None) + tables.count("may_pass")
    assert others >= 300
    assert tables.count("may_pass") <= MOST_SURVIVE * others
