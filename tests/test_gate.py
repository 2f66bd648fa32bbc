"""The gate on which our claims about the host rely."""

import time

import pytest
import torch

import debubble

from .gate import SHORT_MS, closed_gate, gate_that_waits_open


@pytest.fixture
def x(accelerator):
    """Returns zeros [4] on the device. A kernel has been launched on them once behind a gate, so
    that later launches load nothing."""
    zeros = torch.ones(4, device=accelerator.device)
    zeros.fill_(0.0)
    accelerator.synchronize()
    with closed_gate(accelerator, SHORT_MS):
        zeros.fill_(0.0)
    accelerator.synchronize()
    return zeros


def test_what_is_behind_it_begins_when_it_is_opened_however_slow_the_host_is(accelerator, x):
    done = accelerator.event()
    with closed_gate(accelerator) as gate:
        x.fill_(1.0)
        done.record()
        time.sleep(0.3)
        assert gate.closed
        assert not done.query()
    accelerator.synchronize()
    assert not gate.closed
    assert x.tolist() == [1.0] * 4


def test_a_host_that_waits_finds_it_open(accelerator, x):
    with closed_gate(accelerator, SHORT_MS) as gate:
        x.fill_(1.0)
        accelerator.synchronize()
        assert not gate.closed
    assert x.tolist() == [1.0] * 4


def test_it_opens_by_itself(accelerator):
    gate = closed_gate(accelerator, 20.0)
    accelerator.current_stream().synchronize()
    assert not gate.closed


def test_other_streams_go_on(accelerator, x):
    beside = accelerator.stream()
    with closed_gate(accelerator) as gate:
        with beside:
            x.fill_(1.0)
        beside.synchronize()
        assert gate.closed


def test_gates_open_one_by_one(accelerator, x):
    between = accelerator.event()
    first = closed_gate(accelerator)
    between.record()
    with closed_gate(accelerator) as second:
        assert first.closed
        first.open()
        between.synchronize()
        assert not first.closed
        assert second.closed
    accelerator.synchronize()


@pytest.mark.parametrize("what", ["an event", "a stream"])
def test_a_wait_opens_it_and_is_one(accelerator, what):
    done = accelerator.event()
    with debubble.record(accelerator) as timeline, gate_that_waits_open(accelerator) as gate:
        done.record()
        assert gate.closed
        (done if what == "an event" else accelerator.current_stream()).synchronize()
        assert not gate.closed
    assert timeline.counts()["host_syncs"] == 1
    assert timeline.counts()["kernels"] == 1
