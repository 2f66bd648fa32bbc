"""A program's own Python between calls: nothing by default, and an event if it is measured."""

import subprocess
import sys
import time

import pytest
import torch

import debubble
from debubble import Timeline
from debubble.sim.clock import own_python

pytestmark = pytest.mark.sim
MS = 1_000_000


class Clock:
    """Nanoseconds that pass only when a test says so."""

    def __init__(self):
        self.processor = self.wall = 0

    def works(self, milliseconds):
        self.processor += milliseconds * MS
        self.wall += milliseconds * MS

    def sleeps(self, milliseconds):
        self.wall += milliseconds * MS


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(
        own_python.OwnPython.__init__,
        "__defaults__",
        (
            lambda: clock.processor,
            lambda: clock.wall,
            own_python.SHORTEST_US,
            lambda: clock.wall,
        ),
    )
    return clock


def own(timeline):
    return [(e.name, e.duration) for e in timeline.events if e.kind == "python"]


def two_calls(accelerator, between, host=None):
    """Returns the recording of two additions with `between()` between them."""
    x = torch.ones(64, device=accelerator.device)
    with debubble.record(accelerator, host=host) as timeline:
        x + 1
        between()
        x + 2
    return timeline


def test_work_between_two_operators_is_an_event_as_long_as_it_took(accelerator, clock):
    timeline = two_calls(accelerator, lambda: clock.works(200), "measured")
    assert own(timeline) == [("your Python", 200_000)]
    first, second = (e for e in timeline.events if e.kind == "kernel")
    assert second.start - first.start > 200_000
    assert timeline.label.endswith("your Python measured")


def test_sleep_is_a_wait_of_this_machine(accelerator, clock):
    timeline = two_calls(accelerator, lambda: clock.sleeps(50), "measured")
    assert own(timeline) == [("your Python waits (this machine)", 50_000)]


def test_by_default_own_python_costs_nothing(accelerator, clock):
    timeline = two_calls(accelerator, lambda: clock.works(200))
    assert own(timeline) == [] and timeline.length < 1000


@pytest.mark.deep
def test_the_command_measures_it_when_asked(tmp_path):
    script, saved = tmp_path / "script.py", tmp_path / "timeline.json"
    script.write_text(
        "import time, torch\nx = torch.ones(64, device='cuda')\ny = x + 1\n"
        "time.sleep(0.05)\nprint((x + 2).sum().item())\n"
    )
    command = (sys.executable, "-m", "debubble", "syncs", "--as-cuda", "--save", str(saved))
    waits = []
    for options in ((), ("--host", "measured")):
        subprocess.run([*command, *options, str(script)], check=True, capture_output=True)
        waits.append([e.source.line for e in Timeline.load(saved).events if "waits (" in e.name])
    modelled, measured = waits
    assert modelled == [] and 4 in measured


def test_the_line_is_the_one_that_ran(accelerator):
    x = torch.ones(64, device=accelerator.device)
    with debubble.record(accelerator, host="measured") as timeline:
        x + 1
        loop = sys._getframe().f_lineno + 2
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass
        x + 2
    (worked,) = (e for e in timeline.events if e.name == "your Python" and e.duration > 90_000)
    assert worked.source.line in (loop, loop + 1)
    bubble = max(timeline.bubbles(), key=lambda bubble: bubble.duration)
    assert bubble.cause == "waiting for the host" and bubble.source == worked.source


@pytest.mark.parametrize("call", [lambda x: x @ x, lambda x: x.sum().item(), torch.zeros_like])
def test_the_work_of_sim_itself_does_not_count(accelerator, clock, call, monkeypatch):
    computes = torch.ones(64, 64, device=accelerator.device)
    call(computes)

    def slow(*arguments):
        clock.works(10)

    monkeypatch.setattr(accelerator._device, "check", slow)
    monkeypatch.setattr(accelerator._device.races, "by_tensors", slow)
    with debubble.record(accelerator, host="measured") as timeline:
        call(computes)
        call(computes)
    assert own(timeline) == []


def test_a_backward_pass_is_no_wait_of_the_thread_that_called_it(accelerator, clock):
    x = torch.ones(64, device=accelerator.device, requires_grad=True)
    with debubble.record(accelerator, host="measured") as timeline:
        loss = (x * 2).sum()
        x.register_hook(lambda gradient: clock.sleeps(30))
        loss.backward()
        x + 1
    assert [name for name, _ in own(timeline)].count("your Python waits (this machine)") <= 1


def test_another_word_is_one_sentence(accelerator, monkeypatch):
    reason = "is either modelled or measured"
    with pytest.raises(ValueError, match=reason), debubble.record(accelerator, host="real"):
        pass
    monkeypatch.setenv("DEBUBBLE_HOST", "real")
    with pytest.raises(ValueError, match=reason), debubble.record(accelerator):
        pass
