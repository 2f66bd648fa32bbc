"""Proved races: each is in every kind of output, and no run with a race is reported as free of
waits."""

import json

import pytest

WRONG = {
    "read too early": """\
import debubble, torch
x = torch.ones(4, device=debubble.accelerator().device)
host = x.to("cpu", non_blocking=True)
host.sum()
""",
    "overwritten in flight": """\
import debubble, torch
accelerator = debubble.accelerator()
accelerator.sleep(5)
host = torch.ones(4, pin_memory=True)
x = host.to(accelerator.device, non_blocking=True)
host.fill_(2)
accelerator.synchronize()
""",
    "two streams": """\
import debubble, torch
accelerator = debubble.accelerator()
x = torch.ones(4, device=accelerator.device)
with accelerator.stream():
    x + 1
""",
    "in a loop": """\
import debubble, torch
x = torch.ones(4, device=debubble.accelerator().device)
for _ in range(3):
    host = x.to("cpu", non_blocking=True)
    host.sum()
""",
}
RIGHT = """\
import debubble, torch
accelerator = debubble.accelerator()
x = torch.ones(4, device=accelerator.device)
host, done = x.to("cpu", non_blocking=True), accelerator.event()
done.record()
done.synchronize()
host.sum()
"""


@pytest.fixture
def run(syncs, accelerator):
    if not accelerator.modelled:
        pytest.skip("a GPU shows a race now and then, and proves none")
    return syncs


@pytest.mark.parametrize("name", WRONG)
def test_a_race_is_in_every_output_with_both_lines(run, tmp_path, name):
    files = ["--json", "found.json", "--sarif", "found.sarif", "--github"]
    found = run(WRONG[name], *files)
    assert found.exit_code == 0, found.output
    assert "Races:" in found.output and "One race was proved" in found.output
    assert "No host syncs" not in found.output
    (race,) = json.loads((tmp_path / "found.json").read_text())["races"]
    assert race["count"] == (3 if name == "in a loop" else 1)
    assert race["message"] in found.output
    (log,) = json.loads((tmp_path / "found.sarif").read_text())["runs"]
    (result,) = [each for each in log["results"] if each["level"] == "error"]
    assert (
        result["ruleId"] == race["kind"] in {rule["id"] for rule in log["tool"]["driver"]["rules"]}
    )
    places = [*result["locations"], *result["relatedLocations"]]
    lines = [place["physicalLocation"]["region"]["startLine"] for place in places]
    assert lines == [race["second"]["line"], race["first"]["line"]]
    assert f"::error file=script.py,line={lines[0]},title=a race::" in found.output


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("against", ["check", "baseline"])
def test_a_race_fails_a_check(run, tmp_path, name, against):
    (tmp_path / "known.json").write_text(json.dumps({"findings": []}))
    options = ["--check"] if against == "check" else ["--baseline", "known.json"]
    assert run(WRONG[name], *options).exit_code == 1


def test_a_run_without_a_race_says_nothing_of_races(run, tmp_path):
    found = run(RIGHT, "--json", "found.json")
    assert "ace" not in found.output.replace("trace", "")
    assert json.loads((tmp_path / "found.json").read_text())["races"] == []
