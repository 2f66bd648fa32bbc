"""Sim's device times are near an H100's for programs that had no part in its making."""

import re

import pytest
import torch

import debubble

from . import accuracy, timed_steps

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def reported():
    found = accuracy.rows("reporting")
    assert len(found) == 8
    return found


@pytest.mark.deep
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
    step = timed_steps.step_of(timed_steps.STEPS / "reporting/recommender_train.py", sim)
    assert 0 < step.device_us < step.row_us and step.call_us > 0


def test_a_host_is_compared_with_its_own_constants(tmp_path, monkeypatch):
    by_host = {"modelled": 90.0, "measured": 110.0}
    monkeypatch.setattr(accuracy, "calibrate", lambda output, only: output.write_text(only))
    monkeypatch.setattr(
        accuracy,
        "modelled_steps",
        lambda which, path, host: {key: [5.0, 2, by_host[host], 7.0] for key in ("one", "two")},
    )
    path = tmp_path / "constants.json"
    steps = {"one": [5.0, 2, 100.0, 7.0], "two": [5.0, 2, 100.0, 7.0]}
    stored = {"steps": {"reporting": steps}, "here": accuracy.here(path)}
    assert not path.exists()
    table = accuracy.on_its_host(stored, "reporting", "call_us")
    assert "| one | 100 | 110 | +10.0% | 90 | -10.0% |" in table


def test_kernels_are_counted_by_the_kind_of_their_operator():
    sim = debubble.accelerator("sim")
    x = torch.ones(8, 16, 4, 4).to(sim.device)
    with debubble.record(sim) as timeline:
        (x.flatten(2) @ x.flatten(2).mT).softmax(-1).exp()
        torch.conv2d(x, x)
        torch.nn.functional.scaled_dot_product_attention(x, x, x)
        x.cpu()
    found = timed_steps.side_of(timeline).by_kind
    kinds = {"attention", "convolution", "copy", "elementwise and others", "product", "reduction"}
    assert found.keys() == kinds
    assert (found["product"], found["reduction"], found["copy"]) == (1, 1, 1)


def test_programs_with_other_kernels_are_named_and_a_librarys_choice_is_not():
    measured = timed_steps.Step(9.0, 9, by_kind={"product": 3, "convolution": 6})
    same = measured._replace(by_kind={"product": 3, "convolution": 2})
    other = measured._replace(by_kind={"product": 3, "convolution": 1, "copy": 1})
    found = [accuracy.Row("same", measured, same), accuracy.Row("other", measured, other)]
    text = accuracy.kinds_table(found)
    assert text.startswith("1 of 2 programs") and "| same" not in text
    assert "| other | convolution 1 for 6, copy 1 for 0 |" in text


def test_a_public_program_that_fails_is_said_and_others_go_on(monkeypatch, capsys):
    good, bad = (timed_steps.Program(name, "PyPI", "", "", [], []) for name in ("good", "bad"))

    def step_of_program(program, accelerator):
        if program is bad:
            raise RuntimeError("bad: no data")
        return timed_steps.Step(1.0, 1)

    monkeypatch.setattr(timed_steps, "timed_programs", lambda: [bad, good])
    monkeypatch.setattr(timed_steps, "program_step", step_of_program)
    assert timed_steps.program_steps(debubble.accelerator("sim")).keys() == {"good"}
    assert "bad: no data" in capsys.readouterr().err
