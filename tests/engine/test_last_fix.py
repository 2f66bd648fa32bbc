"""The benchmark of sync_free as the last fix: its two parts take out their waits, and keep the
tokens."""

import json

import pytest

from solutions.engine.measure import last_fix
from solutions.engine.measure.presets import ServingPreset
from solutions.engine.measure.variants import finish
from solutions.engine.model.model import Model
from solutions.engine.pictures.dashboard import TABLES, TOKENS
from solutions.engine.requests.request import SamplingParams
from solutions.engine.requests.workload import Asked, alike_prompts
from tests.engine.test_bench import tiny
from tests.scheduling import schedule_only
from tests.terminal import quick, test_the_table_stays_within_a_terminal  # noqa: F401

SHARES = ("upload_us", "read_us", "other_us")


@pytest.fixture(scope="module")
def run(accelerator, tmp_path_factory):
    """Returns (folder, printed text) of a quick run with a tiny model."""
    preset = tiny(accelerator.modelled)
    in_a_row = {modelled: {"decode": 2} for modelled in (True, False)}
    with pytest.MonkeyPatch.context() as patch, schedule_only(accelerator, TOKENS | TABLES):
        patch.setattr(last_fix, "STEPS_IN_A_ROW", in_a_row)
        for name in ("hybrid", "hybrid_on_sim"):
            patch.setattr(ServingPreset, name, lambda: preset)
        return quick(last_fix.main, tmp_path_factory.mktemp("bench"))


def test_each_part_takes_out_its_waits(accelerator, run):
    record = json.loads((run[0] / "engine_last_fix.json").read_text())
    assert record["modelled"] is accelerator.modelled
    costs = record["presets"]["hybrid"]["steps"]["decode"]
    waits = {name: cost["counts"]["host_syncs"] for name, cost in costs.items()}
    assert waits["neither"] == waits["packed inputs"] + waits["late read"]
    assert (waits["packed inputs"], waits["sync_free"]) == (1, 0)
    assert waits["late read"] > 1
    for cost in costs.values():
        assert cost["counts"]["graph_launches"] == 1
        if accelerator.modelled:
            assert all(cost[share] is None for share in SHARES)
        else:
            assert min(cost[share] for share in SHARES) > 0
            assert sum(cost[share] for share in SHARES) == pytest.approx(cost["loop_us"])


def test_uploads_and_reads_are_timed_and_tokens_stay(accelerator):
    preset = tiny(accelerator.modelled)
    model = Model(preset.config, accelerator.device)
    answers = []
    for side in last_fix.SIDES.values():
        steps = last_fix.decodes_of(accelerator, preset, model, side)
        prompts = alike_prompts(preset.config.model, 2, 5, 0, [1, 1])
        asked = [Asked(prompt, SamplingParams(max_tokens=3)) for prompt in prompts]
        answers.append(finish(steps.decodes.engine, asked))
        assert min(steps.upload_us, steps.read_us) > 0
    assert all(answer == answers[0] for answer in answers)
