"""Correct answers that differ from ours: each passes all tests of its kata.

They lie in `tests/correct_variants/<system>/<kata>/`, written like wrong attempts: on top of the
solution. The text above the change says what differs.
"""

import pytest

from debubble.accelerator import current
from debubble.exercises.kata_files.catalogue import find_catalogue
from debubble.exercises.kata_files.changed_solution import code_of_attempt
from debubble.exercises.proof.trials import run_trials
from debubble.exercises.proof.verdicts import on_solution
from debubble.exercises.running.under_test import attempt

CATALOGUE = find_catalogue()
VARIANTS = {kata: sorted(kata.variants_folder.glob("*.*")) for kata in CATALOGUE.katas}


@pytest.mark.deep(24)
@pytest.mark.parametrize("kata", VARIANTS, ids=lambda kata: kata.name)
def test_correct_variants_pass(kata):
    attempts = [attempt(kata, path) for path in VARIANTS[kata]]
    trials = run_trials(attempts, current().name, lambda trial: None)
    assert {trial.implementation.path.stem: on_solution(trial).problem for trial in trials} == {
        found.path.stem: "" for found in attempts
    }


@pytest.mark.parametrize("kata", VARIANTS, ids=lambda kata: kata.name)
def test_every_variant_fits_the_solution_as_it_is_now(kata):
    """Every variant's quoted lines are in its solution as it is now. They include comments, so a
    variant breaks when these change."""
    assert all(code_of_attempt(kata, path).parts for path in VARIANTS[kata])


def test_every_variant_is_of_a_kata():
    found = (CATALOGUE.root / "tests" / "correct_variants").glob("*/*/*.*")
    assert {*found} == {path for paths in VARIANTS.values() for path in paths}
