"""The look-ups of the katas' plugin: the kata of a test, its catalogue, its course."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..kata_files.catalogue import Catalogue, Kata
from ..running.course import Course

CATALOGUES = pytest.StashKey[dict[Path, Catalogue | None]]()
COURSES = pytest.StashKey[dict[Path, Course]]()
TO_RUN = pytest.StashKey[set[str]]()
"""The ids of the tests that this run was asked for."""


def kata_of(config: pytest.Config, path: Path) -> Kata | None:
    """Returns the kata that the test file at `path` belongs to; None if it is no kata's."""
    catalogue = catalogue_of(config, path)
    return catalogue.of_test_file(path) if catalogue else None


def catalogue_of(config: pytest.Config, path: Path) -> Catalogue | None:
    """Returns the catalogue of the workbook in which a test file katas/<system>/test_<kata>.py
    lies; None for a file elsewhere."""
    known = config.stash[CATALOGUES]
    root = path.parents[2] if len(path.parents) > 2 else path.parent
    if root not in known:
        known[root] = Catalogue(root) if Catalogue(root).file.is_file() else None
    return known[root]


def course_of(config: pytest.Config, kata: Kata) -> Course:
    known = config.stash[COURSES]
    if kata.root not in known:
        known[kata.root] = Course(
            config, catalogue_of(config, kata.test_path) or Catalogue(kata.root)
        )
    return known[kata.root]


def place_of(config: pytest.Config, kata: Kata | None) -> int:
    """Returns the kata's place in teaching order, from 0; -1 for a test of no kata, so that it
    comes first."""
    if kata is None:
        return -1
    catalogue = catalogue_of(config, kata.test_path)
    return catalogue.katas.index(kata) if catalogue else -1
