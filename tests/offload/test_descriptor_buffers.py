"""The pool of descriptors: a buffer belongs to one transfer until the event after it is done."""

import pytest
import torch

import debubble
from solutions.offload.paths.descriptors import DescriptorPool, _new_descriptor_buffers


class Flag:
    """A stand-in for an event: done when `passed` is set, or when it is waited for."""

    def __init__(self, passed=False):
        self.passed, self.waits = passed, 0

    def query(self):
        return self.passed

    def synchronize(self):
        self.passed = True
        self.waits += 1


def in_flight(pool, *sizes):
    """Takes buffers of these sizes from the pool, and returns them to it with pending events.
    Returns [(buffers, event)]."""
    taken = [(pool.take(size), Flag()) for size in sizes]
    for buffers, event in taken:
        pool.give_back(buffers, event)
    return taken


def test_three_rows_of_pinned_int64(accelerator):
    buffers = _new_descriptor_buffers(100)
    assert (buffers.dtype, buffers.shape) == (torch.int64, (3, 100))
    assert buffers.is_pinned() == accelerator.pin_memory
    assert buffers.is_contiguous(), "the driver takes dense lists as they are"


@pytest.mark.parametrize("num_descriptors", [0, 1, 63, 64, 65, 4096, 5000])
def test_a_buffer_holds_what_was_asked_for(num_descriptors):
    buffers = DescriptorPool().take(num_descriptors)
    assert num_descriptors <= buffers.shape[1] <= max(64, 2 * num_descriptors)


def test_what_is_taken_is_nobody_else_s():
    pool = DescriptorPool()
    taken = [pool.take(10) for _ in range(5)]
    assert len({buffers.data_ptr() for buffers in taken}) == pool.num_buffers == 5


def test_a_buffer_is_handed_out_again_when_its_event_has_passed():
    pool = DescriptorPool()
    ((first, event),) = in_flight(pool, 10)
    assert pool.take(10).data_ptr() != first.data_ptr()
    event.passed = True
    assert pool.take(10).data_ptr() == first.data_ptr()
    assert pool.num_buffers == 2
    assert event.waits == 0


def test_an_event_is_forgotten_with_its_buffer():
    """An event no longer counts after its buffer was reused: it may belong to a different transfer
    by then."""
    pool = DescriptorPool()
    ((first, event),) = in_flight(pool, 10)
    event.passed = True
    assert pool.take(10).data_ptr() == first.data_ptr()
    event.passed = False
    pool.give_back(first, Flag(passed=True))
    assert pool.take(10).data_ptr() == first.data_ptr()


def test_the_smallest_that_fits_is_taken():
    pool = DescriptorPool()
    for buffers, event in in_flight(pool, 1000, 100, 10):
        event.passed = True
        assert buffers is not None
    assert pool.take(90).shape[1] == 128
    assert pool.take(90).shape[1] == 1024
    assert pool.take(90).shape[1] == 128, "the one that is left is too small: a new one"
    assert pool.num_buffers == 4


def test_a_pool_grows_as_far_as_transfers_are_in_flight():
    pool = DescriptorPool()
    for _ in range(20):
        for _, event in in_flight(pool, 10, 20, 30):
            event.passed = True
    assert pool.num_buffers == 3


def test_a_pool_that_may_not_grow_waits_for_the_transfer_that_ends_next():
    pool = DescriptorPool(most_buffers=2)
    (first, event), (_, later) = in_flight(pool, 10, 10)
    assert pool.take(10).data_ptr() == first.data_ptr()
    assert (event.waits, later.waits) == (1, 0)
    assert pool.num_buffers == 2


def test_a_pool_that_may_not_grow_makes_room_for_a_larger_buffer():
    pool = DescriptorPool(most_buffers=2)
    in_flight(pool, 10, 10)
    assert pool.take(500).shape[1] == 512
    assert pool.num_buffers == 2


def test_a_pool_with_everything_taken_says_so():
    pool = DescriptorPool(most_buffers=2)
    pool.take(10), pool.take(10)
    with pytest.raises(RuntimeError, match="all 2 descriptor buffers are taken"):
        pool.take(10)


def test_a_pool_without_buffers_is_refused():
    with pytest.raises(ValueError, match="a pool of 0 buffers: it needs at least one"):
        DescriptorPool(most_buffers=0)


def test_on_the_device_no_upload_is_overwritten(accelerator):
    """All descriptors arrive if 30 uploads are queued through a pool while the device is busy. The
    pool takes as many buffers as allowed, and waits only if that is too few."""
    for most_buffers in (1, 3, None):
        pool = DescriptorPool(most_buffers)
        targets = [
            torch.zeros((3, 64), dtype=torch.int64, device=accelerator.device) for _ in range(30)
        ]
        with debubble.record(accelerator) as timeline:
            accelerator.sleep(2.0)
            for number, target in enumerate(targets):
                buffers = pool.take(64)
                buffers.fill_(number)
                target.copy_(buffers, non_blocking=True)
                event = accelerator.event()
                event.record()
                pool.give_back(buffers, event)
        assert [target[:, 63].tolist() for target in targets] == [[i] * 3 for i in range(30)]
        assert timeline.hazards == []
        counts = timeline.counts()
        assert (counts["h2d_pinned"], counts["h2d_pageable"]) == (30, 0), "a copy each"
        assert most_buffers or counts["host_syncs"] == 0
        assert pool.num_buffers <= (most_buffers or 30)
