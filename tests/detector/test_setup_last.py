"""Set-up is listed after the steps, and ends at the second pass of the most-passed loop."""

import json
import sys

import pytest

HEAD = """\
import debubble, torch
device = debubble.accelerator().device
"""
TRAIN = f"""{HEAD}\
table = torch.ones(64, 64).to(device)  # set-up
for name in range(50):
    pass  # passed often, without the device
for step in range(4):
    if step == 0:
        table.sum().item()  # set-up, in the first pass
    x = torch.ones(4).to(device)  # step
    for part in range(1):
        (x + 1).sum().item()  # step
print(x.sum().item())  # step
"""
WHILE = f"""{HEAD}\
x = torch.ones(4).to(device)  # set-up
def run(x):
    left = 3
    while left:
        left -= 1
        x.sum().item()  # step
run(x)
"""
NESTED = f"""{HEAD}\
x = torch.ones(4).to(device)  # set-up
for epoch in range(2):
    x.mean().item()  # step
    for batch in range(5):
        x.sum().item()  # step
"""
NO_LOOP = f"""{HEAD}\
x = torch.ones(4).to(device)
for once in range(1):
    x.sum().item()
"""
AFTER = f"""{HEAD}\
x = torch.ones(4).to(device)  # set-up
for step in range(3):
    x.sum().item()  # step
for after_the_last_wait in range(100):
    x + 1
"""
EVALUATED = f"""{HEAD}\
weight = torch.ones(4).to(device).requires_grad_()  # set-up
for step in range(3):
    loss = (weight * torch.ones(4).to(device)).exp().sum()  # step
    loss.backward()
    loss.item()  # step
for batch in range(8):
    weight.detach().sum().item()  # step
"""
ENDED = f"""{HEAD}\
x = torch.ones(4, device=device)
for step in range(4):
    x.sum().item()
for batch in range(3):
    if batch % 2 == 0:
        x.mean().item()
print(x.max().item())  # after
def tried():
    x.min().item()  # after
    for rare in range(1):
        x.var().item()
        return
tried()
"""
SAVED = f"""{HEAD}\
x = torch.ones(4).to(device)  # set-up
for step in range(3):
    x.sum().item()  # step
    torch.save({{"x": x, "y": x + 1, "z": x + 2}}, "x.pt")  # step
"""
MODULE = f"""{HEAD}\
from steps import run
x = torch.ones(4).to(device)  # set-up
run(x)
"""
STEPS = """\
def run(x):
    for step in range(3):
        x.sum().item()  # step
"""


@pytest.fixture
def run(syncs, tmp_path):
    def run(text: str, *options: str, **of):
        printed = syncs(text, "--json", "found.json", *options, **of)
        assert printed.exit_code == 0, printed.output
        return printed.output, json.loads((tmp_path / "found.json").read_text())

    yield run
    sys.modules.pop("steps", None)


@pytest.mark.parametrize(
    "text",
    [TRAIN, WHILE, NESTED, AFTER, EVALUATED],
    ids=["train", "while", "nested", "after", "evaluated"],
)
def test_rows_of_set_up_come_after_those_of_steps(run, text):
    printed, data = run(text)
    assert data["findings"]
    for row in data["findings"]:
        assert row["setup"] == ("# set-up" in row["code"]), row["code"]
    flags = [row["setup"] for row in data["findings"]]
    assert flags == sorted(flags) and any(flags) and not all(flags)
    steps, heading, setup = printed.partition("Set-up, before the second pass of script.py:")
    assert heading and "# set-up" in setup and "# set-up" not in steps and "# step" not in setup


def test_what_is_meant_comes_after_what_has_a_way_around_it(run):
    _, data = run(SAVED)
    assert "torch.save" not in data["findings"][0]["code"]
    assert "torch.save" in data["findings"][1]["code"]


def test_what_no_later_loop_reaches_comes_after_the_steps(run):
    """A single call in a loop belongs to steps: a longer run would repeat it."""
    _, data = run(ENDED)
    assert len(data["findings"]) == 5
    for row in data["findings"]:
        assert ("it comes after the last step" in row["instead"]) == ("# after" in row["code"])


def test_the_loop_is_named(run):
    printed, data = run(TRAIN)
    assert "second pass of script.py:6: for step in range(4):" in printed
    assert (data["steps_of"]["line"], data["steps_of"]["skip"]) == (6, 1)


def test_a_module_that_the_script_imports_has_the_loop(run, tmp_path):
    (tmp_path / "steps.py").write_text(STEPS)
    printed, data = run(MODULE)
    assert "second pass of steps.py:2: for step in range(3):" in printed
    assert [row["setup"] for row in data["findings"]] == [False, True]
    assert not list(tmp_path.glob("__pycache__/steps*")), "compiled code with notes was kept"


def test_a_module_that_is_run_by_name_is_the_script(run):
    _, data = run(TRAIN, "-m", of=("script",))
    assert data["steps_of"]["line"] == 6


@pytest.mark.parametrize("skip", [0, 2, 3])
def test_skip_says_how_many_passes_are_set_up(run, skip):
    text = TRAIN.replace("step == 0", "step == 2")
    printed, data = run(text, "--skip", str(skip))
    setup = {row["code"] for row in data["findings"] if row["setup"]}
    assert ("Set-up" in printed) == bool(skip)
    assert any("first pass" in code for code in setup) == (skip == 3)


@pytest.mark.parametrize(("text", "skip"), [(NO_LOOP, 1), (TRAIN, 4)])
def test_without_such_a_loop_the_report_says_so(run, text, skip):
    printed, data = run(text, "--skip", str(skip))
    often = "two passes" if skip == 1 else "more than 4 passes"
    assert f"no loop used the device in {often} before" in printed
    assert data["steps_of"] is None
    assert not any(row["setup"] for row in data["findings"])


def test_what_something_else_than_python_runs_is_left_as_it_is(run):
    """A function with a decorator keeps its code unchanged, without our notes of loop passes, since
    a decorator that compiles may refuse an unknown call."""
    text = f"""{HEAD}\
def jit(function):
    assert "__debubble_pass__" not in function.__code__.co_names
    return function
@jit
def total(x):
    for part in range(2):
        x = x + 1
    return x
total(torch.ones(4).to(device)).sum().item()
"""
    run(text)
