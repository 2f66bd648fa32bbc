"""The process of a dashboard's runs: its messages, and what happens if it ends."""

import multiprocessing
import os
import signal

import pytest
import torch

import debubble
from debubble.views.dashboard import Dashboard
from debubble.views.dashboard.run import Run, Unwanted, stop_if_unwanted
from debubble.views.dashboard.worker import (
    Worker,
    check_that_it_can_be_sent,
    shared_worker,
)

SLIDERS = {"reads": (1, 2, 3, 4)}


def run(on: frozenset[str], values: dict[str, int]) -> Run:
    """Returns a recorded run with as many reads as the slider "reads" says. Ends the process if
    "crash" is on."""
    if "crash" in on:
        os._exit(3)
    accelerator = debubble.accelerator()
    with debubble.record(accelerator) as timeline:
        for _ in range(values["reads"]):
            torch.zeros(4, device=accelerator.device).sum().item()
    return Run(timeline, {"process": os.getpid()}, accelerator.description)


@pytest.fixture(scope="module")
def worker():
    """Returns a dashboard's worker process, one for all tests, since it takes seconds to start."""
    worker = Worker()
    yield worker
    worker.shutdown()


def test_a_worker_runs_what_is_shown_and_is_replaced_when_it_ends(worker, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_DEVICE", "sim")
    dashboard = Dashboard({"crash": "Crash"}, SLIDERS, run, jobs=worker)
    first = dashboard.show(reads=2)
    process = first.figures["process"]
    assert process != os.getpid()
    assert first.timeline.accelerator == "sim", "the environment has reached it"
    (line,) = {event.source for event in first.timeline.events if event.kind == "sync"}
    assert line.text.endswith(".sum().item()")

    os.kill(process, signal.SIGINT)
    assert dashboard.show(reads=3).figures["process"] == process, "an interrupt is not its end"

    with pytest.raises(RuntimeError, match="has ended"):
        dashboard.show(on={"crash"}, reads=1)
    assert "\nFailed with reads 1, on: crash. The process" in dashboard.status.line["text"]
    assert dashboard.timeline.timeline.counts()["host_syncs"] == 3, "the last good run stays"
    assert dashboard.show(on=(), reads=4).figures["process"] != process


def test_no_process_is_started_before_there_is_work():
    there = multiprocessing.active_children()
    worker = Worker()
    assert multiprocessing.active_children() == there
    worker.shutdown()


@pytest.mark.parametrize("home", ["a lambda", "the notebook"])
def test_a_run_that_no_other_process_can_import_is_refused_at_once(home, monkeypatch):
    unreachable = lambda on, values: None
    if home == "the notebook":
        import __main__

        unreachable.__module__, unreachable.__qualname__ = "__main__", "unreachable"
        monkeypatch.setattr(__main__, "unreachable", unreachable, raising=False)
    with pytest.raises(ValueError, match="give a function of a module, or jobs="):
        Dashboard({}, SLIDERS, unreachable)


def test_a_function_of_a_module_can_be_sent():
    check_that_it_can_be_sent(run)


def endless(on: frozenset[str], values: dict[str, int]) -> Run:
    """Runs until the run is unwanted, and then ends early; with only one read it returns `run`'s
    result."""
    while values["reads"] > 1:
        stop_if_unwanted()
    return run(on, values)


def test_a_run_under_way_ends_when_another_one_is_wanted(worker, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_DEVICE", "sim")
    dashboard = Dashboard({}, SLIDERS, endless, jobs=worker)
    process = dashboard.show(reads=1).figures["process"]
    dashboard.sliders["reads"].value = 4
    assert dashboard.status.line["state"] == "running"
    assert dashboard.show(reads=1).figures["process"] == process
    dashboard.sliders["reads"].value = 3
    dashboard.cancel()
    assert dashboard.sliders["reads"].value == 1
    assert worker.submit(os.getpid).result(60) == process, "it was not killed for that"


def until_unwanted() -> str:
    try:
        while True:
            stop_if_unwanted()
    except Unwanted:
        return "ended"


def test_a_job_submitted_at_once_does_not_keep_an_unwanted_one_alive(worker):
    unwanted = worker.submit(until_unwanted)
    worker.end_early()
    wanted = worker.submit(os.getpid)
    assert unwanted.result(60) == "ended"
    assert wanted.result(60) != os.getpid()


@pytest.mark.deep
def test_a_forked_process_makes_a_worker_of_its_own():
    mine = shared_worker()
    if (child := os.fork()) == 0:
        os._exit(shared_worker() is mine)
    assert os.waitpid(child, 0)[1] == 0
    assert shared_worker() is mine
