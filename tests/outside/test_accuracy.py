"""Sim's device times are near an H100's for programs that had no part in its making."""

import re

import pytest

from . import accuracy

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def reported():
    found = accuracy.rows("reporting")
    assert len(found) == 8
    return found


def test_the_median_error_of_the_reporting_set_is_small(reported):
    assert accuracy.median(reported) < 0.10, [(r.program, r.error) for r in reported]


def test_no_step_is_far_off(reported):
    assert not [(row.program, row.error) for row in reported if abs(row.error) > 0.33]


def test_of_two_steps_the_longer_one_is_named(reported):
    assert accuracy.ordered(reported) > 0.85


def test_the_page_has_the_figures_of_the_reporting_set(reported):
    page = accuracy.PAGE.read_text(encoding="utf-8")
    said = float(re.search(r"median of the absolute error is ([\d.]+)%", page)[1])
    assert said / 100 == pytest.approx(accuracy.median(reported), abs=0.01)
