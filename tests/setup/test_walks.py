"""Whoever follows one thing from its call to its end has few files to open."""

import pytest

from .walks import addition, gdn, gdn_launch, kata, swap

MOST_FILES_OF_AN_ADDITION = 13
MOST_FILES_OF_A_KATA = {"learner": 18, "solutions": 15}
"""Nine say how a kata is run, what its tests claim and how a failure reads. Then there is whose
turn it is (`course`), where a learner's files are (`workspace`) and what each test of ours may
watch (`polling`, `keeping`, `inputs`, `pinning`), and what is imported beforehand
(`processes.forked`); for a learner also whether it is still the stub, and what is remembered."""
MOST_FILES_OF_GDN_TABLES = 8
MOST_FILES_OF_A_GDN_LAUNCH = 5
MOST_FILES_OF_A_SWAP = 9


@pytest.mark.sim
def test_an_addition_on_sim_meets_few_files():
    walk = addition()
    assert "debubble/sim/operators/computing.py" in walk.calls
    assert len(walk.calls) <= MOST_FILES_OF_AN_ADDITION, f"the walk of a + 1:\n{walk}"


@pytest.mark.sim
def test_the_lengths_of_a_gdn_step_meet_few_files_on_their_way_to_its_tables():
    walk = gdn()
    assert "solutions/gdn/chunk_tables.py" in walk.calls
    assert len(walk.calls) <= MOST_FILES_OF_GDN_TABLES, f"from lengths to tables:\n{walk}"


@pytest.mark.sim
def test_gdn_tables_meet_few_files_on_their_way_to_the_kernel_that_reads_them():
    walk = gdn_launch()
    assert "solutions/gdn/rule/solve_chunks.py" in walk.calls
    assert len(walk.calls) <= MOST_FILES_OF_A_GDN_LAUNCH, f"from tables to a launch:\n{walk}"


@pytest.mark.deep(2)
@pytest.mark.sim
@pytest.mark.parametrize(
    ("whose", "is_explained"), [("learner", True), ("solutions", False)], ids=["stub", "solution"]
)
def test_a_kata_meets_few_files_from_its_source_to_its_verdict(whose, is_explained):
    walk = kata(whose)
    assert "debubble/workshop/plugin.py" in walk.calls
    assert ("debubble/workshop/teaching/diagnosis.py" in walk.calls) == is_explained
    assert len(walk.calls) <= MOST_FILES_OF_A_KATA[whose], f"a kata's walk:\n{walk}"


@pytest.mark.sim
def test_block_ids_meet_few_files_on_their_way_to_a_launch():
    walk = swap()
    assert "solutions/offload/swap_blocks.py" in walk.calls
    assert len(walk.calls) <= MOST_FILES_OF_A_SWAP, f"the walk of block ids:\n{walk}"
