"""A small copy between host and device is short, and ends when a waiting host was seen to go on."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import debubble
from debubble.clock.action import copy, kernel
from debubble.clock.cost import CostModel
from debubble.clock.launch_queue import LaunchQueue

COST = replace(CostModel.load(), copy_us=5.0, small_copy_us=1.5)


def booked(cost, action, now=100.0):
    stream = SimpleNamespace(free_at=0.0, submitted=0)
    return LaunchQueue(cost).book(action, stream, now)


@pytest.mark.parametrize("kind", ["d2h", "h2d_pinned", "h2d_pageable"])
def test_what_a_copy_lacks_in_length_passes_before_it_begins(kind):
    whole = replace(COST, small_copy_us=0.0)
    (start, short), (sooner, long) = (booked(cost, copy(kind, 0)) for cost in (COST, whole))
    assert (short, long) == (1.5, 5.0)
    assert start + short == sooner + long
    assert start == sooner + 3.5


def test_kernels_and_copies_on_the_device_begin_as_before():
    whole = replace(COST, small_copy_us=0.0)
    for action in (kernel("add", 1024), copy("d2d", 1024)):
        assert booked(COST, action) == booked(whole, action)


def test_a_copy_is_never_longer_than_what_was_measured_for_all_of_it():
    assert booked(replace(COST, copy_us=1.0), copy("d2h", 0))[1] == 1.0


@pytest.mark.sim
def test_a_read_is_a_part_of_its_operators_time(accelerator):
    mask = torch.arange(4096).to(accelerator.device) % 2 == 0
    with debubble.record(accelerator) as timeline:
        mask.nonzero()
    work = [event for event in timeline.events if event.on_device]
    (read,) = (event for event in work if event.name == "d2h")
    found = torch.zeros(2048, 1, dtype=torch.int64)
    us = CostModel.load().measured_us("nonzero", [mask.cpu()], [found], 4096 + found.nbytes)
    assert sum(event.duration for event in work) == pytest.approx(us)
    assert read.duration == pytest.approx(us / len(work))
