"""`debubble syncs --also` names the line and the key of a planted compilation, allocation or host
bubble, and nothing in programs that resemble them."""

import gc
import inspect
import json
import re
import sys
import time

import pytest
import torch
from typer.testing import CliRunner

import debubble
from debubble.cli import app
from debubble.detector.host_bound import find_host_bound
from debubble.sim.clock import own_python
from debubble.sim.memory import caching

from .host_bound import clean, planted

KINDS = {
    "compile": {"compile"},
    "alloc": {"alloc"},
    "pinned": {"pinned_alloc"},
    "host": {"python", "python_waits", "launches"},
}


def programs(module) -> list[str]:
    found = vars(module).items()
    return [
        name
        for name, function in found
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and [*inspect.signature(function).parameters] == ["device"]
        and name != "busy"
    ]


def findings(module, name, folder) -> list[dict]:
    """Runs one program as a script, and returns its findings of the kinds of `--also`."""
    script, found = folder / "program.py", folder / "found.json"
    script.write_text(f'{inspect.getsource(module)}\n\n{name}("cuda")\n')
    options = ["--as-cuda", "--device", "sim", "--also", "compile,alloc,host", "--json", str(found)]
    ran = CliRunner().invoke(app, ["syncs", *options, str(script)])
    assert ran.exit_code == 0, ran.output
    wanted = set().union(*KINDS.values()) | {"full_queue"}
    return [one for one in json.loads(found.read_text())["findings"] if one["kind"] in wanted]


@pytest.fixture(autouse=True)
def on_sim(accelerator, monkeypatch):
    if accelerator.name != "sim":
        pytest.skip("the programs run on sim, with its allocator and its keys")
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    gc.collect()
    caching.DEVICE.empty()
    caching.PINNED.given.clear()


@pytest.mark.deep(2)
@pytest.mark.parametrize("name", programs(planted))
def test_a_planted_program_is_named_with_its_line_and_key(name, tmp_path):
    lines, first = inspect.getsourcelines(getattr(planted, name))
    marked = {
        number: re.search(r"# (compile|alloc|pinned|host)(?:: (\w+))?$", line.rstrip())
        for number, line in enumerate(lines, first)
    }
    marked = {number: mark for number, mark in marked.items() if mark}
    found = findings(planted, name, tmp_path)
    assert found, name
    for one in found:
        mark = marked.get(one["line"])
        assert mark is not None, one
        assert one["kind"] in KINDS[mark[1]], one
        assert mark[2] is None or re.search(rf": {mark[2]}\b", one["key"]), one


@pytest.mark.deep(2)
@pytest.mark.parametrize("name", programs(clean))
def test_a_program_without_any_is_left_alone(name, tmp_path):
    assert findings(clean, name, tmp_path) == []


@pytest.mark.parametrize(
    ("module", "name"),
    [(clean, "pinned_memory_is_reused"), (planted, "metadata_is_built_by_a_python_loop")],
)
def test_a_slow_machine_gets_the_same_findings(module, name, tmp_path, monkeypatch):
    here = findings(module, name, tmp_path)
    slow = [*own_python.OwnPython.__init__.__defaults__]
    slow[:2] = [lambda: 6 * time.thread_time_ns(), lambda: 6 * time.perf_counter_ns()]
    monkeypatch.setattr(own_python.OwnPython.__init__, "__defaults__", tuple(slow))
    there = findings(module, name, tmp_path)
    assert {one["line"] for one in there} == {one["line"] for one in here}


def test_there_are_twenty_of_each():
    assert len(programs(planted)) == len(programs(clean)) == 20


@pytest.mark.parametrize(("launches", "waits"), [(1000, 0), (1100, 1)])
def test_a_launch_that_waits_for_room_in_the_queue_is_named(accelerator, launches, waits):
    x = torch.zeros(8, device=accelerator.device)
    with debubble.record(also=["host"]) as timeline:
        accelerator.sleep(1000.0)
        for _ in range(launches):
            x.add_(1)
    found = find_host_bound(timeline, frozenset({"host"}), None)
    full = [one for one in found if one.kind == "full_queue"]
    assert [one.count for one in full] == [1] * waits
    assert all(one.source.text == "x.add_(1)" and one.worst > 10_000 for one in full)
