"""The ring: every value arrives, no upload waits without need, and nothing is overwritten too
early."""

import numpy as np
import pytest
import torch

import debubble
from solutions.common.packed_upload import upload_plans
from solutions.common.persistent_arrays import PersistentArrays
from solutions.common.staging_ring import StagingRing
from solutions.offload import KVGroup, KVTensors, SingleDirectionOffloadingHandler
from solutions.pinned_h2d import PrefixRangeBuffer
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


def through_a_ring(accelerator, depth):
    ring = StagingRing((4,), torch.int32, depth)
    target = torch.zeros(4, dtype=torch.int32, device=accelerator.device)
    return lambda n: (ring.upload(torch.full((4,), n, dtype=torch.int32), target), target)[1]


def through_persistent_arrays(accelerator, depth):
    arrays = PersistentArrays({"a": 4}, accelerator.device, depth)
    return lambda n: (arrays.upload({"a": (np.full(2, n), n)}), arrays["a"][:4])[1]


def through_image_ranges(accelerator, depth):
    buffer = PrefixRangeBuffer(1, 1, accelerator.device, steps_in_flight=depth, for_graphs=True)
    return lambda n: buffer.update({0: [(n, n)]}, 1)


def through_a_packed_upload(accelerator, depth):
    ring = StagingRing((64,), torch.uint8, depth)
    array = lambda n: {"plan": {"a": np.full(4, n)}}
    return lambda n: upload_plans(array(n), accelerator.device, ring)["plan"]["a"]


USERS = [
    through_a_ring,
    through_persistent_arrays,
    through_image_ranges,
    through_a_packed_upload,
]


@pytest.fixture
def stall(accelerator):
    """Returns a function that stalls the current stream behind a load of KV blocks."""
    pair = KVTensors(
        torch.zeros((4, 64), dtype=torch.int8, device=accelerator.device),
        torch.ones((4, 64), dtype=torch.int8).pin_memory(),
    )
    handler = SingleDirectionOffloadingHandler([KVGroup([pair])], gpu_to_cpu=False)

    def stall():
        accelerator.sleep(3.0)
        handler.transfer_async(0, [[1, 2]], [[0, 1]])
        handler.make_stream_wait([0])

    yield stall
    handler.get_finished()


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("user", USERS, ids=lambda user: user.__name__)
def test_a_step_beyond_the_depth_waits_and_nothing_is_overwritten(
    accelerator, stall, user, depth, more
):
    """Whatever keeps steps in flight, each user of a ring waits for the step that has its slot
    (vLLM #47644), also while a load of KV blocks holds the stream up (TRT-LLM #15546)."""
    upload = user(accelerator, depth)
    for number in range(1, 1 + depth):
        upload(number)
    steps = range(10, 10 + depth + more)
    with debubble.record(accelerator) as timeline:
        stall()
        found = [upload(number).clone() for number in steps]
    arrived = [set(each.flatten().tolist()) for each in found]
    assert arrived == [{number} for number in steps], "a step has another step's numbers"
    assert timeline.hazards == []
    assert timeline.counts()["host_syncs"] == more, "waits of the steps beyond the depth"
