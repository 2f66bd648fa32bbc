"""The tests of each system notice a small edit of its source, or the edit has a reason."""

from pathlib import Path

import pytest

from .making import mutants, sources
from .verdicts import MOST_SURVIVE, NAMES, ONE_IN, judges_of, outcome, read_reasons

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.sim


@pytest.mark.timeout(600)
def test_a_few_mutants_of_a_file_fail():
    file, tests = "solutions/engine/memory/block_manager.py", "tests/engine/test_block_manager.py"
    found = outcome(ROOT, [file], [tests], ONE_IN)
    assert len(found.verdicts) > 2
    assert found.unexplained == found.stale == []


@pytest.mark.timeout(3600)
@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
def test_no_mutant_of_the_sample_passes_without_a_reason(name):
    found = outcome(ROOT, sources(ROOT, name), judges_of(name, ROOT), ONE_IN)
    assert found.unexplained == found.stale == []


def test_few_of_the_sample_may_pass():
    sample = [it for name in NAMES for it in mutants(ROOT, sources(ROOT, name), ONE_IN)]
    reasons = dict(read_reasons())
    tables = [reasons.get(mutant.key) for mutant in sample]
    others = tables.count(None) + tables.count("may_pass")
    assert tables.count("may_pass") <= MOST_SURVIVE * others
