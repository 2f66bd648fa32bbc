"""Modelled time: overlap, order, and the cost of a wait."""

import statistics
from itertools import pairwise

import pytest
import torch

import debubble
from debubble.assets import ASSETS
from debubble.clock.cost import CostModel
from debubble.timeline import Timeline

pytestmark = pytest.mark.sim


def device_events(timeline, kind="kernel"):
    return [event for event in timeline.events if event.kind == kind]


def test_time_is_the_same_in_every_run(accelerator):
    x = torch.ones(64, 64, device=accelerator.device)

    def record():
        with debubble.record(accelerator) as timeline:
            (x @ x).sum().item()
        return [(event.name, event.start, event.duration) for event in timeline.events]

    first, second = record(), record()
    assert [row[0] for row in first] == [row[0] for row in second]
    assert [row[1:] for row in first] == [pytest.approx(row[1:]) for row in second]


def test_a_stream_runs_one_thing_after_the_other(accelerator):
    x = torch.ones(64, device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1)
        x + 1
        x + 2
    kernels = device_events(timeline)
    assert all(a.end <= b.start for a, b in pairwise(kernels))


def test_two_streams_overlap(accelerator):
    side = accelerator.stream()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1)
        with side:
            accelerator.sleep(1)
    first, second = device_events(timeline)
    assert second.start < first.end


def test_two_uploads_share_one_copy_engine(accelerator):
    side = accelerator.stream()
    pinned = torch.zeros(1 << 20, pin_memory=True)
    with debubble.record(accelerator) as timeline:
        pinned.to(accelerator.device, non_blocking=True)
        with side:
            pinned.to(accelerator.device, non_blocking=True)
    first, second = device_events(timeline, "copy")
    assert second.start >= first.end - 1e-3


def test_a_copy_that_waits_in_its_stream_lets_others_go_first(accelerator):
    here, there = (torch.ones(4, device=accelerator.device) for _ in range(2))
    accelerator.synchronize()
    aside = accelerator.stream()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(5)
        here.to("cpu", non_blocking=True)
        with aside:
            there.to("cpu", non_blocking=True)
    behind_the_sleep, beside_it = [e for e in timeline.events if e.copy_kind == "d2h"]
    assert beside_it.end < 1_000 < 5_000 < behind_the_sleep.start


def test_an_upload_and_a_download_overlap(accelerator):
    side = accelerator.stream()
    pinned = torch.zeros(1 << 20, pin_memory=True)
    x = torch.zeros(1 << 20, device=accelerator.device)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        pinned.to(accelerator.device, non_blocking=True)
        with side:
            x.to("cpu", non_blocking=True)
    up, down = device_events(timeline, "copy")
    assert down.start < up.end


def test_a_wait_lasts_until_the_queue_is_empty(accelerator):
    x = torch.ones(4, device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(10)
        x.sum().item()
    (wait,) = [event for event in timeline.events if event.kind == "sync"]
    assert wait.duration > 9_900


def test_a_small_pageable_copy_lets_the_host_go_and_a_large_one_holds_it(accelerator):
    """A pageable upload of 2 MiB occupies the host for a quarter of a millisecond, and a larger one
    until all earlier work of the device is done, as measured on GPUs."""
    ends = {}
    for kib in (1, 2048, 2080):
        with debubble.record(accelerator) as timeline:
            accelerator.sleep(10)
            torch.zeros(kib * 256).to(accelerator.device, non_blocking=True)
            torch.empty(1, device=accelerator.device).fill_(0)
        ends[kib] = max(event.end for event in timeline.events if not event.on_device)
    assert ends[1] < 100
    assert 200 < ends[2048] < 400
    assert ends[2080] > 10_000


def test_the_launch_queue_holds_the_host_when_it_is_full(accelerator):
    x = torch.ones(4, device=accelerator.device)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(50)
        for _ in range(1100):
            x + 1
    launches = [event for event in timeline.events if event.kind == "launch"]
    assert launches[1000].end < 50_000
    assert launches[1099].end > 50_000


def test_kernels_of_a_graph_follow_as_fast_as_recordings_of_gpus_say(accelerator):
    """It is less than half of the time between two kernels that are launched one by one."""
    paths = [path for name in ("flex_graph_full", "engine_all") for path in recordings_of(name)]
    assert len(paths) == 4
    recorded = [statistics.median(gaps_in_graphs(Timeline.load(path))) for path in paths]
    cost = CostModel.load()
    assert min(recorded) < cost.graph_gap_us < max(recorded) < cost.gap_us / 2
    graph, x = accelerator.graph(), torch.ones(4, device=accelerator.device)
    with graph.capture():
        for _ in range(10):
            x.add_(1)
    with debubble.record(accelerator) as timeline:
        graph.replay()
    assert gaps_in_graphs(timeline) == pytest.approx([cost.graph_gap_us] * 9)


def recordings_of(name):
    return sorted((ASSETS / "timelines").glob(f"*/{name}.json"))


def gaps_in_graphs(timeline):
    """Returns the microseconds between kernels that follow each other in one graph."""
    kernels = sorted(
        (event for event in timeline.events if event.kind == "kernel"),
        key=lambda event: (event.lane, event.start),
    )
    return [
        after.start - before.end
        for before, after in pairwise(kernels)
        if before.launched_by == after.launched_by is not None
    ]


def test_more_bytes_and_more_operations_take_longer(accelerator):
    durations = []
    for size in (256, 1024, 2048):
        x = torch.ones(size, size, device=accelerator.device)
        with debubble.record(accelerator) as timeline:
            x + 1
            x @ x
        durations.append([event.duration for event in device_events(timeline)])
    assert durations[0][0] < durations[1][0] < durations[2][0]
    assert durations[0][1] < durations[1][1] < durations[2][1]


def test_the_shipped_calibration_is_that_of_an_h200():
    assert CostModel.load("nvidia-h200").gpu == "NVIDIA H200"


def test_an_unknown_calibration_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no calibration for 'h100'.*nvidia-h200"):
        CostModel.load("h100")


def test_a_calibration_that_is_cut_off_is_refused(tmp_path):
    path = tmp_path / "gpu.json"
    path.write_text('{"gpu": "x"')
    with pytest.raises(ValueError, match="is not a calibration"):
        CostModel.load(str(path))
    path.write_text('{"gpu": "x"}')
    with pytest.raises(ValueError, match=r"it lacks .*launch_us"):
        CostModel.load(str(path))


def test_a_calibration_survives_its_file(tmp_path):
    model = CostModel.load()
    model.save(tmp_path / "copy.json")
    assert CostModel.load(str(tmp_path / "copy.json")) == model
