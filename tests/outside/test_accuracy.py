"""Sim's device times are near an H100's for programs that had no part in its making."""

import re

import pytest

import debubble

from . import accuracy

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def reported():
    found = accuracy.rows("reporting")
    assert len(found) == 8
    return found


def test_the_median_error_of_the_reporting_set_is_small(reported):
    assert accuracy.median(reported) < 0.08, [(r.program, r.error) for r in reported]


def test_no_step_is_far_off(reported):
    assert not [(row.program, row.error) for row in reported if abs(row.error) > 0.25]


def test_of_two_steps_the_longer_one_is_named(reported):
    assert accuracy.ordered(reported) > 0.9


def test_the_page_has_the_figures_of_the_reporting_set(reported):
    page = accuracy.PAGE.read_text(encoding="utf-8")
    said = float(re.search(r"median of the absolute error is ([\d.]+)%", page)[1])
    assert said / 100 == pytest.approx(accuracy.median(reported), abs=0.01)


def test_a_step_has_its_call_and_its_share_of_a_row():
    sim = debubble.accelerator("sim")
    step = accuracy.step_of("reporting", "recommender_train", sim)
    assert 0 < step.device_us < step.row_us and step.call_us > 0


def test_a_host_is_compared_with_its_own_constants(tmp_path, monkeypatch):
    by_host = {"modelled": 90.0, "measured": 110.0}
    monkeypatch.setattr(accuracy, "calibrate", lambda output, only: output.write_text(only))
    monkeypatch.setattr(
        accuracy, "modelled_steps", lambda which, path, host: {"one": [5.0, 2, by_host[host], 7.0]}
    )
    path = tmp_path / "constants.json"
    stored = {"steps": {"reporting": {"one": [5.0, 2, 100.0, 7.0]}}, "here": accuracy.here(path)}
    assert not path.exists()
    table = accuracy.on_its_host(stored, "reporting", "call_us")
    assert "| one | 100 | 110 | +10.0% | 90 | -10.0% |" in table
