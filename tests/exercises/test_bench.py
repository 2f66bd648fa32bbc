"""`debubble bench`: what a call of a kata's code costs, beside ours and the stub's."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from debubble.accelerator import current
from debubble.cli import app
from debubble.exercises.kata_files.catalogue import find_catalogue
from debubble.exercises.running.cost import measurable

ROOT = Path(__file__).parents[2]
CATALOGUE = find_catalogue()


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Returns bench(kata), which runs the command with an empty workspace, and the workspace."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DEBUBBLE_WORKSPACE", str(tmp_path))

    def bench(kata: str):
        return CliRunner().invoke(app, ["bench", kata, "--device", current().name])

    return bench, tmp_path


def figures(output: str, row: str) -> list[float]:
    line = next(line for line in output.splitlines() if line.startswith(row))
    return [float(word.replace(",", "")) for word in line.removeprefix(row).split()]


def test_at_least_ten_katas_have_a_cost():
    assert len(measurable(CATALOGUE)) >= 10


def test_ours_costs_less_than_the_stub_and_an_unsolved_kata_is_said_to_be_unsolved(bench):
    command, _ = bench
    result = command("last_index")
    assert result.exit_code == 0, result.output
    assert figures(result.output, "host syncs") == [0, 1]
    assert "Yours is measured once the kata is solved" in result.output


@pytest.mark.sim
def test_without_a_gpu_the_times_are_said_to_be_modelled(bench):
    command, _ = bench
    output = command("bad_words").output
    ours, stub = figures(output, "modelled µs")
    assert ours < stub / 10
    assert "The times are modelled. With a GPU" in output


@pytest.mark.deep
def test_on_a_gpu_the_times_are_ratios(bench):
    """Runs where the device is a GPU; on sim there is no ratio."""
    command, _ = bench
    output = command("bad_words").output
    assert current().modelled or figures(output, "time, in times ours")[1] > 2


def test_code_that_has_solved_the_kata_is_measured(bench):
    command, workspace = bench
    file = workspace / "katas" / "sync_free" / "last_index.py"
    file.parent.mkdir(parents=True)
    file.write_text((ROOT / "katas/sync_free/last_index.py").read_text() + "\n# Mine.\n")
    event = {"kind": "attempt", "kata": "last_index", "verdict": "passed"}
    (workspace / "progress.jsonl").write_text(json.dumps(event) + "\n")
    output = command("last_index").output
    assert figures(output, "host syncs") == [0, 1, 1] and "once the kata is solved" not in output


def test_a_kata_without_a_cost_is_refused_in_a_sentence(bench):
    command, _ = bench
    result = command("buffer_sizes")
    assert result.exit_code == 2 and "has no cost that grows with a step" in result.output
    assert "last_index" in result.output


@pytest.mark.deep
@pytest.mark.parametrize("kata", measurable(CATALOGUE), ids=lambda kata: kata.name)
def test_every_kata_with_a_cost_is_measured(bench, kata):
    command, _ = bench
    result = command(kata.name)
    assert result.exit_code == 0, result.output
    assert len(figures(result.output, "Python instructions")) == 2
