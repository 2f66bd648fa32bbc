"""The ring: every value arrives, no upload waits without need, and nothing is overwritten too
early."""

import pytest
import torch

import debubble
from solutions.common.staging_ring import StagingRing
from tests.gate import gate_that_waits_open

SHAPE = (16, 2)


def upload_steps(accelerator, depth, steps, load_ms=0.0):
    """Uploads the constants 0, 1, 2, ... through a ring of `depth` buffers, each to a tensor of its
    own, while the device is busy for `load_ms`. Returns (those tensors, timeline)."""
    ring = StagingRing(SHAPE, torch.int32, depth)
    targets = [
        torch.zeros(SHAPE, dtype=torch.int32, device=accelerator.device) for _ in range(steps)
    ]
    with debubble.record(accelerator) as timeline:
        if load_ms:
            accelerator.sleep(load_ms)
        for step, target in enumerate(targets):
            ring.upload(torch.full(SHAPE, step, dtype=torch.int32), target)
    return targets, timeline


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_value_arrives_behind_a_busy_device(accelerator, depth):
    targets, timeline = upload_steps(accelerator, depth, steps=7, load_ms=3.0)
    assert [target[0, 0].item() for target in targets] == list(range(7))
    assert all(bool((target == target[0, 0]).all()) for target in targets)
    assert timeline.hazards == []
    assert timeline.counts()["h2d_pinned"] == (7 if accelerator.pin_memory else 0)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_as_deep_as_the_steps_in_flight_it_never_waits(accelerator, depth):
    _, timeline = upload_steps(accelerator, depth, steps=depth, load_ms=3.0)
    assert timeline.counts()["host_syncs"] == 0


def test_a_shallow_ring_waits_only_for_the_slot_it_needs(accelerator):
    ring = StagingRing(SHAPE, torch.int32, 2)
    target = torch.zeros(SHAPE, dtype=torch.int32, device=accelerator.device)
    with debubble.record(accelerator) as timeline, gate_that_waits_open(accelerator):
        for step in range(3):
            ring.upload(torch.full(SHAPE, step, dtype=torch.int32), target)
    assert timeline.counts()["host_syncs"] == 1


def test_a_copy_that_is_done_is_not_waited_for(accelerator):
    ring = StagingRing(SHAPE, torch.int32, 1)
    target = torch.zeros(SHAPE, dtype=torch.int32, device=accelerator.device)
    ring.upload(torch.ones(SHAPE, dtype=torch.int32), target)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        ring.upload(torch.ones(SHAPE, dtype=torch.int32), target)
    assert timeline.counts()["host_syncs"] == 0


def test_the_values_may_be_changed_at_once(accelerator):
    ring = StagingRing(SHAPE, torch.int32, 1)
    target = torch.zeros(SHAPE, dtype=torch.int32, device=accelerator.device)
    values = torch.full(SHAPE, 5, dtype=torch.int32)
    accelerator.sleep(2.0)
    ring.upload(values, target)
    values.zero_()
    assert bool((target == 5).all())


def test_it_allocates_once(accelerator):
    ring = StagingRing(SHAPE, torch.int32, 3)
    addresses = [slot.data_ptr() for slot in ring.slots]
    target = torch.zeros(SHAPE, dtype=torch.int32, device=accelerator.device)
    for step in range(8):
        ring.upload(torch.full(SHAPE, step, dtype=torch.int32), target)
    assert [slot.data_ptr() for slot in ring.slots] == addresses


def test_it_works_where_nothing_can_be_pinned(accelerator, monkeypatch):
    monkeypatch.setattr(accelerator, "pin_memory", False, raising=False)
    targets, timeline = upload_steps(accelerator, depth=2, steps=5, load_ms=1.0)
    assert [target[0, 0].item() for target in targets] == list(range(5))
    assert timeline.counts()["h2d_pinned"] == 0


def test_a_ring_without_slots_is_refused():
    with pytest.raises(ValueError, match="a staging ring of depth 0: it needs at least one slot"):
        StagingRing(SHAPE, torch.int32, 0)
