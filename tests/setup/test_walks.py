"""Whoever follows one thing from its call to its end has few files to open."""

import pytest

from .walks import kata

MOST_FILES = 9


@pytest.mark.sim
@pytest.mark.parametrize(
    ("whose", "is_explained"), [("learner", True), ("solutions", False)], ids=["stub", "solution"]
)
def test_a_kata_meets_few_files_from_its_source_to_its_verdict(whose, is_explained):
    walk = kata(whose)
    assert "debubble/workshop/plugin.py" in walk.calls
    assert ("debubble/workshop/teaching/diagnosis.py" in walk.calls) == is_explained
    assert len(walk.calls) <= MOST_FILES, f"a kata's walk:\n{walk}"
