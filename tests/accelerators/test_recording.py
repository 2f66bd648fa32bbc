"""The contents of a recording, on a GPU and on sim alike."""

import pytest
import torch

import debubble
from tests.common import claims
from tests.gate import closed_gate


def test_counts_a_small_step(accelerator):
    x = torch.randn(4, 4, device=accelerator.device)
    pinned = torch.ones(4, pin_memory=accelerator.pin_memory)
    with debubble.record(accelerator) as timeline:
        y = x * x
        y.add_(1)
        pinned.to(accelerator.device, non_blocking=True)
        torch.tensor([1, 2], device=accelerator.device)
        y.sum().item()
    assert timeline.counts() == {
        "host_syncs": 2,
        "h2d_pageable": 1,
        "h2d_pinned": 1,
        "d2h": 1,
        "d2d": 0,
        "kernels": 3,
        "graph_launches": 0,
    }


def test_waiting_for_the_device_around_a_recording_is_not_in_it(accelerator):
    x = torch.ones(4, device=accelerator.device)
    accelerator.sleep(2)
    with debubble.record(accelerator) as timeline:
        x + 1
    assert timeline.counts()["host_syncs"] == 0
    assert timeline.counts()["kernels"] == 1


def test_a_copy_knows_its_bytes_and_the_call_behind_it(accelerator):
    pinned = torch.ones(1000, pin_memory=accelerator.pin_memory)
    with debubble.record(accelerator) as timeline:
        pinned.to(accelerator.device, non_blocking=True)
    (copy,) = [event for event in timeline.events if event.kind == "copy"]
    assert copy.bytes == 4000
    call = timeline.events[copy.launched_by]
    assert not call.on_device
    assert call.start <= copy.start


def test_a_second_stream_has_a_lane_of_its_own(accelerator):
    x = torch.ones(4, device=accelerator.device)
    stream = accelerator.stream()
    stream.wait_stream(accelerator.current_stream())
    with debubble.record(accelerator) as timeline:
        x + 1
        with stream:
            x * 2
    lanes = [event.lane for event in timeline.events if event.kind == "kernel"]
    assert len(set(lanes)) == 2
    assert "stream 0" in lanes


def test_streams_are_counted_anew_in_each_recording(accelerator):
    """Each recording numbers streams from 1 in the order of their first work, so that two
    recordings can be compared."""
    x = torch.ones(4, device=accelerator.device)
    for _ in range(2):
        late, early = accelerator.stream(), accelerator.stream()
        accelerator.synchronize()
        with debubble.record(accelerator) as timeline:
            for stream in (early, late):
                with stream:
                    x * 2
                accelerator.synchronize()
        kernels = [event.lane for event in timeline.events if event.kind == "kernel"]
        assert kernels == ["stream 1", "stream 2"]


def test_a_sleep_keeps_the_device_busy_and_lets_the_host_go_on(accelerator):
    x = torch.ones(4, device=accelerator.device)
    accelerator.sleep(0.1)
    x + 1
    with debubble.record(accelerator) as timeline, closed_gate(accelerator) as gate:
        accelerator.sleep(20)
        x + 1
        assert gate.closed, "the host waited for something before it went on"
    _, sleep, add = [event for event in timeline.events if event.kind == "kernel"]
    assert sleep.name == "sleep"
    assert sleep.duration >= 20_000
    assert add.start >= sleep.end


def test_a_graph_is_one_launch_of_many_kernels(accelerator):
    x = torch.ones(4, device=accelerator.device)
    x + 1
    graph, y = claims.captured(accelerator, lambda: (x + 1) * 2, warm_up=False)
    with debubble.record(accelerator) as timeline:
        graph.replay()
    assert timeline.counts()["graph_launches"] == 1
    assert timeline.counts()["kernels"] == 2
    assert y.tolist() == [4.0] * 4


def test_an_error_inside_a_recording_leaves_what_was_recorded(accelerator):
    x = torch.ones(4, device=accelerator.device)
    try:
        with debubble.record(accelerator) as timeline:
            x + 1
            raise KeyError("stop")
    except KeyError:
        pass
    assert timeline.counts()["kernels"] == 1
    with debubble.record(accelerator) as again:
        x + 1
    assert again.counts()["kernels"] == 1


def test_a_recording_inside_another_is_refused_and_the_outer_one_goes_on(accelerator):
    x = torch.ones(4, device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        x + 1
        refused = pytest.raises(RuntimeError, match="a recording is running")
        with refused, debubble.record(accelerator):
            x + 1
        x + 1
    assert timeline.counts()["kernels"] == 2
    with debubble.record(accelerator) as again:
        x + 1
    assert again.counts()["kernels"] == 1


@pytest.mark.sim
def test_streams_and_events_of_sim_take_each_other_and_no_others(accelerator):
    with pytest.raises(TypeError, match="waits for events of sim"):
        accelerator.stream().wait_event(torch.Event("cpu"))
    with pytest.raises(TypeError, match="recorded in streams of sim"):
        accelerator.event().record(torch.Stream("cpu"))
